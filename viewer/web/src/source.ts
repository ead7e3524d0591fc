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
  Runtime,
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

interface InTime {
  window: string
}
interface OfRow {
  row: number
}

// Questions has the questions about a trace: the parameters of each, and the type of its answer.
interface Questions {
  meta(q: { f?: string }): Meta
  top(q: InTime): Top
  explain(q: Part): Explanation
  heat(q: InTime & { n: number }): Heat
  choice(q: InTime & { box: string }): Choice
  strip(q: { n: number; q: string }): Strip
  why(q: Part & OfRow & { of: string }): Why
  talk(q: OfRow): { turns: Turn[]; more: number; cut: boolean }
  runtime(q: object): Runtime
  critical(q: OfRow): CriticalPath | null
  flame(q: Part & { by: string }): Flame
  lanes(q: Part & { n: number; from?: bigint; to?: bigint }): Lanes
  facets(q: Part & { alike?: boolean }): Contrast
  table(q: AskTable): Table
  rows(q: Shape & Ask): Rows
  entry(q: OfRow & { all?: boolean }): Entry // with all, attributes are not cut
  logs(q: OfRow): { logs: LogRecord[]; total: number }
  find(q: { q?: string; what?: string; at: number; dir?: string; first?: boolean; window?: string }): Found
  folded(q: InTime & { q: string; rows: string }): number[] // the numbers of hits below some rows
  states(q: { rows: string }): Record<string, string[]> // rows has rows and the numbers of parts of their strips
  waits(q: InTime): WaitPlace[] // the places in the code at which spans waited longest
  waited(q: OfRow): Waited | null
  way(q: InTime & { q: string; root: number }): { rows: number[]; more: boolean }
  complete(q: { q: string; at: number }): { from: number; items: Item[] } // positions are in bytes
}
export type Name = keyof Questions
export type Question<K extends Name> = Parameters<Questions[K]>[0]
export type Answer<K extends Name> = ReturnType<Questions[K]>

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

  // fetch sends a request. It omits parameters without a value.
  private async fetch(path: string, q: object, signal?: AbortSignal): Promise<Response> {
    const shaped = 'toggled' in q ? shapeQuery(q as Shape) : q
    const all = Object.entries<unknown>({ ...shaped, pin: this.pin, clock: this.clock })
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

  async ask<K extends Name>(name: K, q: Question<K>, signal?: AbortSignal): Promise<Answer<K>> {
    return parse(await (await this.fetch(name, q, signal)).text())
  }

  async file(name: 'table' | 'save', q: object): Promise<Blob> {
    return (await this.fetch(name, q)).blob()
  }

  choose(run: string, against: string) {
    return this.fetch('choose', { run, against })
  }

  // follow calls grown with each News until the caller calls the returned function. If paused is true, all other
  // methods answer from the state at the start of the pause as soon as the first News has come. The server may have
  // dropped that state, for example after a long interruption of the connection. Then other is true in the first News,
  // and the pause starts at the current state.
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
