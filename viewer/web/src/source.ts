// A Source provides all data of a trace to the page.
import type {
  Choice,
  Contrast,
  CriticalPath,
  Entry,
  Explanation,
  Flame,
  Found,
  Heat,
  Item,
  Lanes,
  LogRecord,
  Meta,
  Rows,
  Sample,
  State,
  Strip,
  Table,
  Top,
  Turn,
  Waited,
  WaitPlace,
  Why
} from './answers'

export * from './answers'

export interface Runtime {
  heap: Sample[]
  goroutines: Sample[]
  collections: Sample[]
}

// A Part describes the rows of an answer: the rows that the query q selects, or without q the rows at and below root.
// In both cases, the rows must overlap the window. The answer compares these rows with the rows that the query than
// selects.
export interface Part {
  q: string
  than: string
  root: number
  window: string
}
export interface AskTable extends Part {
  form: string
  level: string
  sort: number
  first: number
  n: number
}

// A Shape says which rows of the tree are open, like the type shape in layout.go. Only rows that overlap the window
// are shown.
export interface Shape {
  root: number
  depth: number
  toggled: number[]
  only: string
  window: string
  least: bigint
}

export interface Ask {
  first?: number
  at?: number
  last?: boolean
  n: number
  fill?: number
  q?: string
}

// A Problem is an error for the user. An error in a query also has its position in the query.
export class Problem extends Error {
  of = '' // the query
  constructor(
    text: string,
    readonly status: number,
    readonly pos = -1,
    readonly hint = '',
    readonly command = '',
    readonly attempt = ''
  ) {
    super(text)
  }
}

// News describes the current state of the files. If rows is negative, the stream of news has ended. In another
// generation, rows have other numbers.
export interface News {
  rows: number
  entries: number
  generation?: number
  error?: string
  notices?: string[]
  state?: string
  states?: State[]
  pin?: string
  other?: boolean
}

export type Source = Pick<Server, keyof Server>

// The flags of a row: view/role.go defines the lower 16 bits, viewer/rows.go the others.
export const roleOf = (f: number) => f & 15
export const levelOf = (f: number) => (f >> 4) & 7
export const isOpen = (f: number) => (f & (1 << 13)) !== 0
export const isExpanded = (f: number) => (f & (1 << 16)) !== 0
export const isHit = (f: number) => (f & (1 << 17)) !== 0
export const isParent = (f: number) => (f & (1 << 18)) !== 0
export const hasSpans = (f: number) => (f & (1 << 19)) !== 0
export const isError = (f: number) => (f & (1 << 20)) !== 0
export const roleSpan = 3,
  roleEvent = 5,
  roleLog = 7

// parse reads JSON in which numbers of nanoseconds may be too large for a JavaScript number. The keys of these
// numbers end in _nano. The pattern of these keys cannot occur within a text, because quotes in texts are escaped.
export function parse<T>(text: string): T {
  const wide = (x: Record<string, unknown>) => {
    if (!Array.isArray(x) || typeof x[0] === 'object')
      for (const k in x) {
        if (typeof x[k] === 'object') wide(x[k] as typeof x)
        else if (k.endsWith('_nano')) x[k] = BigInt(x[k] as string)
      }
    return x
  }
  return wide(JSON.parse(text.replace(/_nano":(-?\d+)/g, '_nano":"$1"'))) as T
}

// shapeQuery returns the parameters of a shape. The toggled rows must be ascending.
export const shapeQuery = ({ toggled, ...s }: Shape) => ({
  ...s,
  x: toggled.map((r, i) => (r - (toggled[i - 1] ?? 0)).toString(36)).join('.')
})

// readToggled is the inverse of the parameter x of shapeQuery.
export function readToggled(x: string | null): number[] {
  let at = 0
  const list = x ? x.split('.').map(d => (at += parseInt(d, 36))) : []
  return list.every((n, i) => Number.isSafeInteger(n) && n > (list[i - 1] ?? 0)) ? list : []
}

// A Server is the source of a page that 'entrace view' serves.
export class Server {
  private pin = ''

  constructor(
    private token: string,
    private clock: string
  ) {}

  // ask sends a request. It omits parameters without a value.
  private async ask(path: string, q: object, signal?: AbortSignal): Promise<Response> {
    const all = Object.entries<unknown>({ ...q, pin: this.pin, clock: this.clock })
      .filter(([, v]) => v !== undefined && v !== false && v !== '')
      .map(([k, v]) => [k, String(v)])
    const r = await fetch('api/' + path + '?' + new URLSearchParams(all), {
      headers: this.headers(),
      signal: signal ?? null
    })
    if (r.ok) return r
    const f = await r.json().catch(() => ({ error: r.statusText }))
    throw new Problem(f.error, r.status, f.pos ?? -1, f.hint ?? '', f.command ?? '', f.try ?? '')
  }

  private headers(): Record<string, string> {
    return this.token ? { Authorization: 'Bearer ' + this.token } : {}
  }

  private async json<T>(path: string, q: object, signal?: AbortSignal): Promise<T> {
    return parse(await (await this.ask(path, q, signal)).text())
  }

  meta(f?: string) {
    return this.json<Meta>('meta', { f })
  }
  choose(run: string, against: string) {
    return this.ask('choose', { run, against })
  }
  top(window: string) {
    return this.json<Top>('top', { window })
  }
  explain(part: Part, signal?: AbortSignal) {
    return this.json<Explanation>('explain', part, signal)
  }
  heat(window: string, n: number) {
    return this.json<Heat>('heat', { window, n })
  }
  choice(window: string, box: string) {
    return this.json<Choice>('heat', { window, box })
  }
  strip(n: number, q: string) {
    return this.json<Strip>('strip', { n, q })
  }
  why(row: number, part: Part, of: string, signal?: AbortSignal) {
    return this.json<Why>('why', { ...part, row, of }, signal)
  }
  talk(row: number, signal?: AbortSignal) {
    return this.json<{ turns: Turn[]; more: number; cut: boolean }>('talk', { row }, signal)
  }
  runtime(signal?: AbortSignal) {
    return this.json<Runtime>('runtime', {}, signal)
  }
  critical(row: number, signal?: AbortSignal) {
    return this.json<CriticalPath | null>('critical', { row }, signal)
  }
  flame(part: Part, by: string, signal?: AbortSignal) {
    return this.json<Flame>('flame', { ...part, by }, signal)
  }
  lanes(part: Part, of: { from: bigint; to: bigint } | null, n: number, signal?: AbortSignal) {
    return this.json<Lanes>('lanes', { ...part, n, ...of }, signal)
  }
  facets(part: Part & { alike?: boolean }, signal?: AbortSignal) {
    return this.json<Contrast>('facets', part, signal)
  }
  table(ask: AskTable, signal?: AbortSignal) {
    return this.json<Table>('table', ask, signal)
  }
  async csv(ask: AskTable) {
    return (await this.ask('table', { ...ask, csv: true })).blob()
  }
  async save(format: string, part: Part) {
    return (await this.ask('save', { ...part, format })).blob()
  }
  rows(shape: Shape, ask: Ask, signal?: AbortSignal) {
    return this.json<Rows>('rows', { ...shapeQuery(shape), ...ask }, signal)
  }
  entry(row: number, all: boolean, signal?: AbortSignal) {
    return this.json<Entry>('entry', { row, all }, signal)
  }
  logs(row: number, signal?: AbortSignal) {
    return this.json<{ logs: LogRecord[]; total: number }>('logs', { row }, signal)
  }
  find(
    ask: { q?: string; what?: string; at: number; dir?: string; first?: boolean; window?: string },
    signal?: AbortSignal
  ) {
    return this.json<Found>('find', ask, signal)
  }
  // strips returns the states of goroutines, by row. Each element of rows is a row and the number of parts of its
  // strip.
  strips(rows: [number, number][], signal?: AbortSignal) {
    return this.json<Record<string, string[]>>('states', { rows: rows.map(r => r.join(':')).join() }, signal)
  }
  // waits returns the places in the code at which spans waited longest.
  waits(window: string, signal?: AbortSignal) {
    return this.json<WaitPlace[]>('waits', { window }, signal)
  }
  waited(row: number, signal?: AbortSignal) {
    return this.json<Waited | null>('waited', { row }, signal)
  }
  way(q: string, root: number, window: string) {
    return this.json<{ rows: number[]; more: boolean }>('way', { q, root, window })
  }
  complete(q: string, at: number, signal?: AbortSignal) {
    return this.json<{ from: number; items: Item[] }>(
      'complete',
      { q, at: new TextEncoder().encode(q.slice(0, at)).length },
      signal
    )
  }

  // follow calls grown with news, until the returned function is called. With paused, all other methods also answer
  // from the state at the beginning of the pause, from the first news on. The server may have dropped this state, for
  // example after a long interruption of the connection. In this case, the first news has other set, and the pause
  // begins with the current state.
  follow(paused: boolean, grown: (n: News) => void): () => void {
    const stop = new AbortController()
    const run = async () => {
      const r = await fetch(paused ? 'api/events?pause=' + this.pin : 'api/events', {
        headers: this.headers(),
        signal: stop.signal
      })
      const reader = r.body!.pipeThrough(new TextDecoderStream()).getReader()
      let rest = ''
      for (;;) {
        const { value, done } = await reader.read()
        if (done) return
        rest += value
        for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
          const news: News = JSON.parse(rest.slice(6, end))
          rest = rest.slice(end + 2)
          if (news.pin) {
            news.other = news.pin !== this.pin
            this.pin = news.pin
          }
          grown(news)
        }
      }
    }
    const ended = () => {
      if (!stop.signal.aborted) grown({ rows: -1, entries: -1 })
    }
    if (!paused) this.pin = ''
    run().then(ended, ended)
    return () => stop.abort()
  }
}
