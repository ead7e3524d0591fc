// What the page knows of a trace comes from a Source.
import { Contrast, CriticalPath, Entry, Explanation, Flame, Format, Found, Item, Lanes, LogRecord, Sample, State, Strip, Table, Top, Turn, Waited, WaitPlace, Why } from './answers'
export * from './answers'

export interface File { name: string; entries: number }

export interface Meta {
  waiting?: string // for a first trace, and nothing else is known
  fingerprint: string; same: boolean; files: File[]; entries: number; rows: number; generation: number; services: string[]
  timed: boolean; spans: boolean; goroutines: boolean; first_unix_nano: bigint; last_unix_nano: bigint; follow: boolean; editor: string; command: string; notices: string[]; state: string; states: State[]; newest: number; clocks: { name: string; late: string }[]; clockCommand: string; against: string; formats: Format[]; static?: string // the query of a page that is one file; undefined for others
}

export interface Runtime { heap: Sample[]; goroutines: Sample[]; collections: Sample[] }

// A Part says which rows an answer is about: those that the query q selects, or else those at and below root, in
// a window. They are compared with those that the query than selects.
export interface Part { q: string; than: string; root: number; window: string }
export interface AskTable extends Part { form: string; sort: number; first: number; n: number }

// A Shape says which rows of the tree are open; see shape in layout.go. Its window is the part of the
// time whose rows are shown.
export interface Shape { root: number; depth: number; toggled: number[]; only: string; window: string; least: bigint }

// Rows are some of the visible rows. Above of them come first: those that the first one is below.
// Of a span that has not ended, took is for how long it was open at least.
export interface Rows {
  total: number; outside: number; first: number; above: number; count: number; from: bigint; to: bigint; toggled: number[] | null
  row: Uint32Array; start: BigInt64Array; took: BigInt64Array; below: Uint32Array; errors: Uint32Array
  name: string[]; service: string[]; text: string[]; depth: Uint16Array; flags: Uint32Array
  ticks: { row: number; time: bigint; level: number }[]
}

export interface Ask { first?: number; at?: number; last?: boolean; n: number; fill?: number; q?: string }

// A Problem is an error that people are told of; of a query with its place.
export class Problem extends Error {
  of = '' // the query
  constructor(text: string, readonly status: number, readonly pos = -1, readonly hint = '', readonly command = '', readonly attempt = '') { super(text) }
}

// News are what the files have now; rows below 0 say that nobody tells any more. Rows of another
// generation have other numbers.
export interface News { rows: number; entries: number; generation?: number; error?: string; notices?: string[]; state?: string; states?: State[]; pin?: string; other?: boolean }

export interface Source {
  meta(print?: string): Promise<Meta>
  top(window: string, signal?: AbortSignal): Promise<Top>
  explain(part: Part, signal?: AbortSignal): Promise<Explanation>
  strip(n: number, q: string, signal?: AbortSignal): Promise<Strip>
  why(row: number, part: Part, of: string, signal?: AbortSignal): Promise<Why>
  runtime(signal?: AbortSignal): Promise<Runtime>
  critical(row: number, signal?: AbortSignal): Promise<CriticalPath | null>
  strips(rows: [number, number][], signal?: AbortSignal): Promise<Record<string, string[]>> // what goroutines did, by row; each with its number of parts
  waited(row: number, signal?: AbortSignal): Promise<Waited | null>
  waits(window: string, signal?: AbortSignal): Promise<WaitPlace[]> // the longest, by their place in the program
  talk(row: number, signal?: AbortSignal): Promise<{ turns: Turn[]; more: number; cut: boolean }>
  flame(part: Part, by: string, signal?: AbortSignal): Promise<Flame>
  lanes(part: Part, of: { from: bigint; to: bigint } | null, n: number, signal?: AbortSignal): Promise<Lanes>
  facets(part: Part, signal?: AbortSignal): Promise<Contrast>
  table(ask: AskTable, signal?: AbortSignal): Promise<Table>
  csv(ask: AskTable): Promise<Blob>
  save(format: string, part: Part): Promise<Blob>
  rows(shape: Shape, ask: Ask, signal?: AbortSignal): Promise<Rows>
  entry(row: number, all: boolean, signal?: AbortSignal): Promise<Entry>
  logs(row: number, signal?: AbortSignal): Promise<{ logs: LogRecord[]; total: number }>
  find(ask: { q?: string; what?: string; at: number; dir?: string; first?: boolean; window?: string }, signal?: AbortSignal): Promise<Found>
  way(q: string, root: number, window: string): Promise<{ rows: number[]; more: boolean }>
  complete(q: string, at: number, signal?: AbortSignal): Promise<{ from: number; items: Item[] }>
  // follow calls grown with what is new, until the function that it returns is called. Paused, it
  // also stops the time: from the first news on, all other methods answer as of the moment when
  // the pause began. If that moment was lost, as after a long break of the connection, the first
  // news have other set, and the pause begins anew.
  follow(paused: boolean, grown: (n: News) => void): () => void
}

export const noTime = -(1n << 63n)

// flags of a row: the lower 16 bits are those of view/role.go, the others those of viewer/rows.go
export const roleOf = (f: number) => f & 15
export const levelOf = (f: number) => f >> 4 & 7
export const isOpen = (f: number) => (f & 1 << 13) !== 0
export const isExpanded = (f: number) => (f & 1 << 16) !== 0
export const isHit = (f: number) => (f & 1 << 17) !== 0
export const isParent = (f: number) => (f & 1 << 18) !== 0
export const hasSpans = (f: number) => (f & 1 << 19) !== 0
export const isError = (f: number) => (f & 1 << 20) !== 0
export const roleSpan = 3, roleEvent = 5, roleLog = 7

// parse reads JSON in which the numbers of nanoseconds, whose keys end in _nano, are larger than a number holds. Within a
// text there is no such key, as its quotes are escaped.
export function parse(text: string) {
  const wide = (x: any): any => {
    if (Array.isArray(x)) { if (typeof x[0] === 'object') x.forEach(wide) } else for (const k in x) {
      if (typeof x[k] === 'object') wide(x[k])
      else if (k.endsWith('_nano')) x[k] = BigInt(x[k])
    }
    return x
  }
  return wide(JSON.parse(text.replace(/_nano":(-?\d+)/g, '_nano":"$1"')))
}

// decode reads an answer of api/rows.
export function decode(b: ArrayBuffer): Rows {
  const view = new DataView(b)
  const size = view.getUint32(0, true)
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(b, 4, size)))
  const pad = (n: number) => n + 7 & ~7
  const n = head.rows as number, m = head.ticks as number
  let at = pad(4 + size)
  const take = <T>(make: new (b: ArrayBuffer, at: number, n: number) => T, bytes: number, count = n): T => {
    const column = new make(b, at, count)
    at += bytes * count
    return column
  }
  const start = take(BigInt64Array, 8), took = take(BigInt64Array, 8)
  const row = take(Uint32Array, 4), below = take(Uint32Array, 4), errors = take(Uint32Array, 4)
  const name = take(Uint32Array, 4), service = take(Uint32Array, 4), text = take(Uint32Array, 4)
  const flags = take(Uint32Array, 4), depth = take(Uint16Array, 2)
  at = pad(at)
  const times = take(BigInt64Array, 8, m), rows = take(Uint32Array, 4, m), levels = take(Uint32Array, 4, m)
  const strings = head.strings as string[]
  const words = (column: Uint32Array) => Array.from(column, i => strings[i] ?? '')
  return {
    total: head.total, outside: head.outside, first: head.first, above: head.above, count: n - head.above, from: BigInt(head.from), to: BigInt(head.to), toggled: head.toggled,
    row, start, took, below, errors, name: words(name), service: words(service), text: words(text), depth, flags,
    ticks: Array.from(times, (time, i) => ({ time, row: rows[i]!, level: levels[i]! })),
  }
}

// shapeQuery writes the parameters of a shape; toggled rows are ascending.
export function shapeQuery(s: Shape): Record<string, string> {
  const q: Record<string, string> = {}
  if (s.root) q.root = String(s.root)
  if (s.depth) q.depth = String(s.depth)
  if (s.only) q.only = s.only
  if (s.window) q.window = s.window
  if (s.least) q.least = String(s.least)
  if (s.toggled.length) {
    let last = 0
    q.x = s.toggled.map(r => { const d = r - last; last = r; return d.toString(36) }).join('.')
  }
  return q
}

// readToggled is the other direction of x in shapeQuery.
export function readToggled(x: string | null): number[] {
  let at = 0
  const list = x ? x.split('.').map(d => at += parseInt(d, 36)) : []
  return list.every((n, i) => Number.isSafeInteger(n) && n > (list[i - 1] ?? 0)) ? list : []
}

const partQuery = (p: Part) => ({ ...(p.q && { q: p.q }), ...(p.than && { than: p.than }), ...(p.root && { root: String(p.root) }), ...(p.window && { window: p.window }) })

const tableQuery = (ask: AskTable) => ({ ...partQuery(ask), form: ask.form, sort: String(ask.sort), first: String(ask.first), n: String(ask.n) })

// A Server is the source of a page that 'entrace view' serves.
export class Server implements Source {
  private pin = ''

  constructor(private token: string) {}

  private async ask(path: string, q: Record<string, string>, signal?: AbortSignal): Promise<Response> {
    if (this.pin) q = { ...q, pin: this.pin }
    const r = await fetch('api/' + path + '?' + new URLSearchParams(q), { headers: this.headers(), signal: signal ?? null })
    if (r.ok) return r
    const f = await r.json().catch(() => ({ error: r.statusText }))
    throw new Problem(f.error, r.status, f.pos ?? -1, f.hint ?? '', f.command ?? '', f.try ?? '')
  }

  private headers(): Record<string, string> { return this.token ? { Authorization: 'Bearer ' + this.token } : {} }

  private async json<T>(path: string, q: Record<string, string>, signal?: AbortSignal): Promise<T> { return parse(await (await this.ask(path, q, signal)).text()) }

  meta(print?: string) { return this.json<Meta>('meta', print ? { f: print } : {}) }
  top(window: string, signal?: AbortSignal) { return this.json<Top>('top', window ? { window } : {}, signal) }
  explain(part: Part, signal?: AbortSignal) { return this.json<Explanation>('explain', partQuery(part), signal) }
  strip(n: number, q: string, signal?: AbortSignal) { return this.json<Strip>('strip', q ? { n: String(n), q } : { n: String(n) }, signal) }
  why(row: number, part: Part, of: string, signal?: AbortSignal) { return this.json<Why>('why', { ...partQuery(part), row: String(row), of }, signal) }
  talk(row: number, signal?: AbortSignal) { return this.json<{ turns: Turn[]; more: number; cut: boolean }>('talk', { row: String(row) }, signal) }
  runtime(signal?: AbortSignal) { return this.json<Runtime>('runtime', {}, signal) }
  critical(row: number, signal?: AbortSignal) { return this.json<CriticalPath | null>('critical', { row: String(row) }, signal) }
  flame(part: Part, by: string, signal?: AbortSignal) { return this.json<Flame>('flame', { ...partQuery(part), by }, signal) }
  lanes(part: Part, of: { from: bigint; to: bigint } | null, n: number, signal?: AbortSignal) { return this.json<Lanes>('lanes', { ...partQuery(part), n: String(n), ...(of && { from: String(of.from), to: String(of.to) }) }, signal) }
  facets(part: Part, signal?: AbortSignal) { return this.json<Contrast>('facets', partQuery(part), signal) }
  table(ask: AskTable, signal?: AbortSignal) { return this.json<Table>('table', tableQuery(ask), signal) }
  async csv(ask: AskTable) { return (await this.ask('table', { ...tableQuery(ask), csv: '1' })).blob() }
  async save(format: string, part: Part) { return (await this.ask('save', { ...partQuery(part), format })).blob() }
  async rows(shape: Shape, ask: Ask, signal?: AbortSignal) {
    const q = shapeQuery(shape)
    q.n = String(ask.n)
    if (ask.last) q.last = '1'
    else if (ask.at !== undefined) q.at = String(ask.at)
    else q.first = String(ask.first ?? 0)
    if (ask.fill) q.fill = String(ask.fill)
    if (ask.q) q.q = ask.q
    return decode(await (await this.ask('rows', q, signal)).arrayBuffer())
  }
  entry(row: number, all: boolean, signal?: AbortSignal) { return this.json<Entry>('entry', all ? { row: String(row), all: '1' } : { row: String(row) }, signal) }
  logs(row: number, signal?: AbortSignal) { return this.json<{ logs: LogRecord[]; total: number }>('logs', { row: String(row) }, signal) }
  find(ask: { q?: string; what?: string; at: number; dir?: string; first?: boolean; window?: string }, signal?: AbortSignal) {
    const q: Record<string, string> = { at: String(ask.at) }
    if (ask.q) q.q = ask.q
    if (ask.what) q.what = ask.what
    if (ask.dir) q.dir = ask.dir
    if (ask.first) q.first = '1'
    if (ask.window) q.window = ask.window
    return this.json<Found>('find', q, signal)
  }
  strips(rows: [number, number][], signal?: AbortSignal) { return this.json<Record<string, string[]>>('states', { rows: rows.map(r => r.join(':')).join() }, signal) }
  waits(window: string, signal?: AbortSignal) { return this.json<WaitPlace[]>('waits', { window }, signal) }
  waited(row: number, signal?: AbortSignal) { return this.json<Waited | null>('waited', { row: String(row) }, signal) }
  way(q: string, root: number, window: string) { return this.json<{ rows: number[]; more: boolean }>('way', { q, root: String(root), window }) }
  complete(q: string, at: number, signal?: AbortSignal) {
    return this.json<{ from: number; items: Item[] }>('complete', { q, at: String(new TextEncoder().encode(q.slice(0, at)).length) }, signal)
  }

  follow(paused: boolean, grown: (n: News) => void): () => void {
    const stop = new AbortController()
    const run = async () => {
      const r = await fetch(paused ? 'api/events?pause=' + this.pin : 'api/events', { headers: this.headers(), signal: stop.signal })
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
    const ended = () => { if (!stop.signal.aborted) grown({ rows: -1, entries: -1 }) }
    if (!paused) this.pin = ''
    run().then(ended, ended)
    return () => stop.abort()
  }
}
