// The conversation with a model at and below a row.

import { useAnswer } from './ask'
import { IconButton } from './icons'
import * as page from './page'
import { Go, none } from './parts'
import { conversation, type Said } from './said'
import { count, duration, lines, many, plain, pretty } from './text'
import * as trace from './trace'

export function Talk({ row }: { row: number }) {
  const { value: t, failed } = useAnswer('talk', { row }, trace.version())
  if (!t) return none(failed || 'Reading…')
  const steps = conversation(t.turns),
    silent = !steps.some(x => x.said.some(m => m.kind === 'text'))
  return (
    <div class="talk">
      {silent && (
        <p class="none">
          What was said was not recorded. Most instrumentations record it with{' '}
          <code class="mono">OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true</code>.
        </p>
      )}
      {steps.map(x => (
        <section class="sec">
          <h3>
            <Go row={x.row}>{plain(x.name) || 'span'}</Go>{' '}
            <span class="q">
              {[
                x.model,
                x.tokens[0] && `${count(Number(x.tokens[0]))} tokens in`,
                x.tokens[1] && `${count(Number(x.tokens[1]))} out`,
                x.finish,
                x.took && duration(x.took)
              ]
                .filter(Boolean)
                .map(p => plain(p as string))
                .join(', ')}
            </span>
            {x.failed && <b class="err"> failed</b>}
          </h3>
          {x.said.map(m => (
            <Message m={m} />
          ))}
        </section>
      ))}
      {(t.more > 0 || t.cut) && (
        <p class="none">
          {t.more > 0 ? many(t.more, 'more entry is', 'more entries are') : 'More entries may be'} not shown.
        </p>
      )}
    </div>
  )
}

const Message = ({ m }: { m: Said }) => (
  <div class={'msg by-' + (m.kind === 'call' || m.kind === 'result' ? 'tool' : m.role.replace(/\W.*/, ''))}>
    <span class="who bar soft small">
      {m.kind === 'call' ? (
        <>
          calls <b>{plain(m.name ?? '')}</b>
        </>
      ) : m.kind === 'result' ? (
        <>
          result
          {m.name && (
            <>
              {' '}
              of <b>{plain(m.name)}</b>
            </>
          )}
        </>
      ) : (
        plain(m.role)
      )}
      {m.id && <span class="q mono"> {plain(m.id)}</span>}
      <IconButton icon="copy" label="Copy the text" onClick={() => page.copy(m.text)} />
    </span>
    <div class={m.kind === 'text' ? 'txt break' : 'txt break mono'}>
      {lines(m.kind === 'text' ? m.text : pretty(m.text))}
    </div>
  </div>
)
