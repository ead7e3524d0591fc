// Writes three records with the logger that the argument names.
const writers = {
  pino: () => require('pino')(),
  winston: () => {
    const { createLogger, format, transports } = require('winston')
    return createLogger({ format: format.combine(format.timestamp(), format.json()), transports: [new transports.Console()] })
  },
  bunyan: () => require('bunyan').createLogger({ name: 'shop' }),
  error: () => { throw new Error('no card') },
}
const log = writers[process.argv[2]]()
log.info('served')
log.warn('slow')
log.error('no card')
