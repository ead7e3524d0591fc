// What the page shows: all of it is in the address, so that a link shows the same again.
import { batch, computed, signal } from '@preact/signals'
import { Entry, Found, isExpanded, isParent, Meta, Problem, readToggled, Rows, Server, Shape, shapeQuery, Source } from './source'

export type View = 'top' | 'tree'
export type Mode = 'mark' | 'only'

export const meta = signal<Meta | null>(null)
export const view = signal<View>('tree')
export const text = signal('') // of the query, as it is written
export const query = signal('') // the last one that could be run
export const mode = signal<Mode>('mark')
export const selected = signal(0)
export const root = signal(0)
export const depth = signal(0)
export const toggled = signal<number[]>([])
export const axis = signal<{ from: bigint; to: bigint } | null>(null) // null: all of it
export const found = signal<Found | null>(null)
export const searching = signal(false)
export const problem = signal<Problem | null>(null) // of the query
export const notice = signal('')
export const details = signal(true)
export const help = signal(false)
export const paused = signal(false)
export const fresh = signal(0) // rows that came since it was paused, or since the end was in sight
export const rowsKnown = signal(0)
export const spoken = signal('') // in the live region
export const other = signal('') // the fingerprint of the link's file, if it is another one

let source: Source
export const src = () => source

export const only = computed(() => mode.value === 'only' ? query.value : '')
export const shape = computed<Shape>(() => ({ root: root.value, depth: depth.value, toggled: toggled.value, only: only.value }))

const token = 'entrace-token'

// begin reads the address and opens the source.
export async function begin() {
  const hash = new URLSearchParams(location.hash.slice(1))
  const given = hash.get('token')
  if (given) {
    sessionStorage.setItem(token, given)
    history.replaceState(null, '', location.pathname + location.search)
  }
  source = new Server(given ?? sessionStorage.getItem(token) ?? '')
  meta.value = await source.meta()
  rowsKnown.value = meta.value.rows
  readAddress(location.search)
}

// readAddress takes in the query part of an address.
export function readAddress(search: string) {
  const q = new URLSearchParams(search)
  const number = (name: string) => { const n = Number(q.get(name)); return Number.isSafeInteger(n) && n >= 0 ? n : 0 }
  batch(() => {
    const print = q.get('f')
    other.value = print && meta.value && print !== meta.value.fingerprint ? print : ''
    const known = (n: number) => n < (meta.value?.rows ?? 0) ? n : 0
    view.value = q.get('v') === 'top' || !q.size && (meta.value?.rows ?? 0) > 0 ? 'top' : 'tree'
    text.value = query.value = q.get('q') ?? ''
    mode.value = q.get('m') === 'only' ? 'only' : 'mark'
    selected.value = other.value ? 0 : known(number('s'))
    root.value = other.value ? 0 : known(number('root'))
    depth.value = number('d')
    toggled.value = other.value ? [] : readToggled(q.get('x')).filter(r => known(r) > 0)
    const w = /^(-?\d+)-(-?\d+)$/.exec(q.get('w') ?? '')
    axis.value = w ? { from: BigInt(w[1]!), to: BigInt(w[2]!) } : null
  })
}

// address returns the query part that shows what the page shows.
export function address(): string {
  const q = new URLSearchParams()
  if (meta.value) q.set('f', meta.value.fingerprint)
  q.set('v', view.value)
  if (query.value) q.set('q', query.value)
  if (mode.value === 'only') q.set('m', 'only')
  if (selected.value) q.set('s', String(selected.value))
  const s = shapeQuery({ ...shape.value, only: '' })
  if (s.root) q.set('root', s.root)
  if (s.depth) q.set('d', s.depth)
  if (s.x) q.set('x', s.x)
  if (axis.value) q.set('w', `${axis.value.from}-${axis.value.to}`)
  return '?' + q
}

// toggle opens or closes a row.
export function toggle(row: number) {
  const list = toggled.value
  toggled.value = list.includes(row) ? list.filter(r => r !== row) : [...list, row].sort((a, b) => a - b)
}

// reveal opens what a row is below, selects it and brings it into sight.
export const wanted = signal<{ row: number } | null>(null)
export function reveal(row: number, path: { row: number }[]) {
  batch(() => {
    view.value = 'tree'
    let from = root.value ? path.findIndex(p => p.row === root.value) + 1 : 0
    if (root.value && from === 0) root.value = 0
    if (!root.value) from = 0
    const open = new Set(toggled.value)
    path.slice(from).forEach((p, level) => {
      const byDefault = level < depth.value
      if (byDefault === open.has(p.row)) open[byDefault ? 'delete' : 'add'](p.row)
    })
    toggled.value = [...open].sort((a, b) => a - b)
    selected.value = row
    wanted.value = { row }
  })
}

export async function go(row: number) {
  const e = await source.entry(row, false)
  reveal(row, e.path)
}

let search: AbortController | null = null

// find counts what the query selects.
export async function find() {
  search?.abort()
  const own = search = new AbortController()
  const q = text.value.trim()
  if (!q) {
    batch(() => { query.value = ''; found.value = null; problem.value = null; searching.value = false })
    return
  }
  searching.value = true
  try {
    const f = await source.find({ q, at: selected.value }, own.signal)
    batch(() => { query.value = q; found.value = f; problem.value = null; searching.value = false; spoken.value = f.count.toLocaleString('en-US') + ' hits' })
  } catch (e) {
    if (own.signal.aborted) return
    batch(() => { searching.value = false; problem.value = e instanceof Problem ? e : new Problem(String(e), 0) })
  }
}

// next goes to the next or the previous hit, error, or span that never ended.
export async function next(dir: 'next' | 'prev', what = '') {
  if (!what && !query.value) return
  const f = await source.find({ at: selected.value, dir, what, q: what ? '' : query.value })
  if (!f.count) { notice.value = what === 'error' ? 'There is no error' : what ? 'Every span has ended' : 'Nothing is found'; return }
  if (!what) found.value = f
  reveal(f.row, f.path)
}

// add adds a condition to the query.
export function add(condition: string, without = false) {
  const c = without ? `not (${condition})` : condition
  const now = text.value.trim()
  text.value = now ? now.startsWith('{') ? `${now} | { ${c} }` : `(${now}) && ${c}` : c
  find()
}

// A Pages keeps the rows of a shape, a hundred at a time.
export const pageSize = 100
export class Pages {
  private pages = new Map<number, Rows>()
  private asked = new Map<number, AbortController>()
  total = -1
  from = 0n
  to = 0n

  constructor(public shape: Shape, readonly q: string, private changed: () => void, readonly fill = 0) {}

  // want makes the rows from one place up to another come.
  want(from: number, to: number) {
    for (let p = Math.floor(Math.max(0, from) / pageSize); p <= Math.floor(Math.max(0, to - 1) / pageSize); p++) {
      if (this.total >= 0 && p * pageSize >= Math.max(1, this.total)) break
      if (!this.pages.has(p) && !this.asked.has(p)) this.load(p)
    }
  }

  private async load(p: number) {
    const stop = new AbortController()
    this.asked.set(p, stop)
    try {
      const fill = p === 0 && this.fill ? { fill: this.fill } : {}
      this.take(p, await source.rows(this.shape, { first: p * pageSize, n: pageSize, q: this.q, ...fill }, stop.signal))
    } catch (e) {
      if (!stop.signal.aborted) notice.value = e instanceof Error ? e.message : String(e)
    }
    this.asked.delete(p)
    this.changed()
  }

  private take(p: number, r: Rows) {
    this.total = r.total
    this.from = r.from
    this.to = r.to
    if (this.pages.size > 20) this.pages.delete(this.pages.keys().next().value!)
    this.pages.set(p, r)
    if (r.toggled) filled.value = r.toggled
  }

  // at returns where a row is: its page and its index in the page's columns.
  at(i: number): { page: Rows; k: number } | null {
    const page = this.pages.get(Math.floor(i / pageSize))
    const k = i % pageSize
    return page && k < page.count && page.first === i - k ? { page, k: page.above + k } : null
  }

  // place returns where a row is, if that page is here.
  place(row: number): number {
    for (const [p, page] of this.pages) {
      for (let k = 0; k < page.count; k++) if (page.row[page.above + k] === row) return p * pageSize + k
    }
    return -1
  }

  // above returns the rows that the one at a place is below, from the top.
  above(i: number): { page: Rows; k: number }[] {
    const at = this.at(i)
    if (!at) return []
    const out: { page: Rows; k: number }[] = []
    let depth = at.page.depth[at.k]!
    for (let k = at.k - 1; k >= at.page.above && depth > 0; k--) {
      if (at.page.depth[k]! < depth) { out.push({ page: at.page, k }); depth = at.page.depth[k]! }
    }
    for (let k = at.page.above - 1; k >= 0; k--) if (at.page.depth[k]! < depth) { out.push({ page: at.page, k }); depth = at.page.depth[k]! }
    return out.reverse()
  }

  stop() { for (const s of this.asked.values()) s.abort() }
}

// filled are the rows that the first answer of a trace has opened.
export const filled = signal<number[] | null>(null)

export const canOpen = (flags: number) => isParent(flags) && !isExpanded(flags)
export const entry = signal<Entry | null>(null)

// lastTime is the last time in the trace.
export const lastTime = () => BigInt(meta.value?.last ?? '0')
