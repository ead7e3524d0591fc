// The source of a static page: the page itself contains all its data.
import { clamp } from './bars'
import type {
  Answer,
  Contrast,
  CriticalPath,
  Entry,
  Explanation,
  Flame,
  Heat,
  Lanes,
  LogRecord,
  Meta,
  Name,
  Part,
  Place,
  Question,
  Shape,
  Source,
  Strip,
  Table,
  Top,
  TreeRow,
  WaitPlace,
  Why
} from './source'
import { isError, isOpen, Problem, parse, roleEvent, roleLog, roleOf, roleSpan } from './source'
import { finder, isQuery, wordsOf } from './words'

// Data is staticData in viewer/static.go.
interface Data {
  meta: Meta & { static: string }
  top: Top
  explain: Explanation
  heat: Heat
  waits: WaitPlace[]
  paths: Record<string, CriticalPath>
  why: Record<string, Why[]>
  facets: Contrast
  table: Table
  flames: Record<string, Flame>
  strip: Strip
  lanes: Lanes
  csv: string
  rows: { up: number; line: TreeRow; entry: Entry }[]
}

type Times = [bigint, bigint]

// timesOf returns the times of a window, or null if the text has no times.
function timesOf(window: string): Times | null {
  const w = /^(-?\d+),(-?\d+)$/.exec(window)
  return w && [BigInt(w[1]!), BigInt(w[2]!)]
}

const limit = (text: string) =>
  new Problem(`${text} needs 'entrace view': this page is a copy of a part of the trace`, 422)

// isLimited reports whether only 'entrace view' can answer a query. A static page can answer the queries of its
// buttons.
const isLimited = (q: string) =>
  isQuery(q) && !/^{ span:(failed \|\| \(level >= error && entry:role != event\)|open) }$/.test(q)

export class Static implements Source {
  private lines: TreeRow[] // by row; the first line stands for the whole tree
  private all: number[] // the rows
  private whole: Times
  private last = { key: '', rows: [] as number[], outside: 0 }

  // open decodes the data of the page.
  static async open(el: HTMLElement): Promise<Static> {
    const packed = Uint8Array.from(atob(el.textContent!.trim()), c => c.charCodeAt(0))
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))
    return new Static(parse(await new Response(stream).text()))
  }

  constructor(private d: Data) {
    const tree = { below: d.rows.length, depth: 0, start_unix_nano: null, took_nano: null } as TreeRow
    this.lines = [tree, ...d.rows.map(r => r.line)]
    this.all = d.rows.map((_, i) => i + 1)
    this.whole = [d.meta.first_unix_nano, d.meta.last_unix_nano]
  }

  private line(i: number) {
    return this.lines[i]!
  }
  private span(i: number): Times {
    const { start_unix_nano: start, took_nano: took } = this.line(i),
      from = start ?? 0n
    return [from, took && took > 0n ? from + took : from]
  }
  // end returns the position after the last row below a row.
  private end(i: number) {
    return i + 1 + this.line(i).below
  }
  private flags(i: number) {
    return this.line(i).flags
  }
  // up returns the row above a row, or 0 if no row is above it.
  private up(i: number) {
    return this.d.rows[i - 1]!.up
  }
  private isSpan(i: number) {
    return roleOf(this.flags(i)) === roleSpan
  }

  private inside(i: number, window: string): boolean {
    if (!window) return true
    const w = timesOf(window)
    if (!w || this.line(i).start_unix_nano === null) return false
    const [a, z] = this.span(i)
    return a <= w[1] && (z >= w[0] || isOpen(this.flags(i)))
  }

  // matcher returns a function that reports whether a row has all words of a query.
  private matcher(q: string): (i: number) => boolean {
    if (q.startsWith('{ span:failed')) return i => isError(this.flags(i)) // the queries of buttons
    if (q === '{ span:open }') return i => isOpen(this.flags(i))
    const finds = finder(q)
    return i => {
      const e = this.d.rows[i - 1]!.entry
      return finds(
        [
          e.role === 'log' ? '' : e.name,
          e.message,
          e.target,
          e.description,
          ...e.attributes.flatMap(a => [a.name, a.kind === 'String' ? a.value : ''])
        ],
        [e.level.toLowerCase(), e.status, e.kind]
      )
    }
  }

  private hits(q: string, window = ''): number[] {
    const is = this.matcher(q)
    return this.all.filter(i => is(i) && this.inside(i, window))
  }

  // layout returns the visible rows of a shape.
  private layout(s: Shape) {
    const key = JSON.stringify([s.root, s.depth, s.toggled, s.only, s.window, String(s.least)])
    if (this.last.key === key) return this.last
    let part: Set<number> | null = null
    if (s.only || s.window || s.least) {
      const is = s.only ? this.matcher(s.only) : () => true
      part = new Set()
      for (const i of this.all) {
        const { flags: f, took_nano: took } = this.line(this.isSpan(i) ? i : this.up(i)),
          short = took !== null && took < s.least && !isOpen(f) && !isError(f)
        if (short || !is(i) || !this.inside(i, s.window)) continue
        for (let up = i; up && !part.has(up); up = this.up(up)) part.add(up)
      }
    }
    const toggled = new Set(s.toggled),
      rows: number[] = []
    let outside = 0
    const base = this.line(s.root).depth
    for (let i = s.root || 1; i < this.end(s.root); ) {
      if (part && !part.has(i)) {
        if (s.window && this.line(i).depth === base) outside++
        i = this.end(i)
        continue
      }
      rows.push(i)
      i = this.end(i) === i + 1 || this.line(i).depth - base < s.depth === toggled.has(i) ? this.end(i) : i + 1
    }
    this.last = { key, rows, outside }
    return this.last
  }

  async ask<K extends Name>(name: K, q: Question<K>): Promise<Answer<K>> {
    return this.answers[name](q)
  }

  async file(name: 'table' | 'save'): Promise<Blob> {
    if (name === 'save') throw limit('Another format')
    return new Blob([this.d.csv])
  }

  async choose(): Promise<Response> {
    throw limit('Another recording')
  }

  follow() {
    return () => {}
  }

  private answers: { [K in Name]: (q: Question<K>) => Answer<K> } = {
    meta: () => this.d.meta,
    top: () => this.d.top,
    explain: () => this.d.explain,
    heat: () => this.d.heat,
    waits: () => this.d.waits,
    states: () => ({}),
    folded: ({ q, rows, window }) => {
      const hits = this.hits(q, window)
      return rows.split(',').map(row => hits.filter(i => i > +row && i < this.end(+row)).length)
    },
    waited: () => null,
    runtime: () => ({ heap: [], goroutines: [], collections: [] }),
    talk: () => ({ turns: [], more: 0, cut: false }),
    complete: () => ({ from: 0, items: [] }),
    rows: ({ n, first: start, at: row, last, fill, q, ...s }) => {
      let toggled: number[] | null = null
      if (fill && !s.toggled.length) {
        // open rows from the top on until the screen is full
        toggled = []
        for (;;) {
          const { rows } = this.layout({ ...s, toggled }),
            seen = new Set(rows)
          const open: Set<number> = new Set(toggled)
          const next: number | undefined = rows
            .slice(0, fill)
            .find(i => this.end(i) > i + 1 && !seen.has(i + 1) && !open.has(i))
          if (rows.length >= fill || next === undefined) break
          toggled = [...toggled, next].sort((a, b) => a - b)
        }
        s = { ...s, toggled }
      }
      const { rows, outside } = this.layout(s)
      let first = start ?? 0
      if (row !== undefined) {
        const at = rows.findIndex(i => i >= row)
        first = Math.max(0, (at < 0 ? rows.length : at) - Math.floor(n / 3))
      }
      if (last) first = rows.length - n
      first = clamp(0, first, rows.length - 1)
      const shown = rows.slice(first, first + n),
        above = shown.slice(0, 1).flatMap(i => this.above(i).filter(up => up >= s.root))
      const is = q ? this.matcher(q) : () => false,
        seen = new Set(rows),
        base = this.line(s.root).depth
      const [from_nano, to_nano] =
        timesOf(s.window) ?? (this.line(s.root).start_unix_nano === null ? this.whole : this.span(s.root))
      const bit = (on: boolean, n: number) => (on ? 1 << n : 0)
      const rowOf = (i: number): TreeRow => {
        const line = this.line(i),
          expanded = line.below > 0 && seen.has(i + 1)
        return {
          ...line,
          depth: line.depth - base,
          flags: line.flags | bit(expanded, 16) | bit(is(i), 17),
          parts: expanded ? [] : line.parts
        }
      }
      return {
        total: rows.length,
        outside,
        first,
        from_nano,
        to_nano,
        toggled,
        above: above.slice(-100).map(rowOf),
        rows: shown.map(rowOf)
      }
    },
    logs: ({ row }) => {
      const list: LogRecord[] = []
      for (let i = row; i < this.end(row); i++) {
        const role = roleOf(this.flags(i))
        if (role !== roleLog && role !== roleEvent) continue
        const up = this.up(i)
        list.push({
          row: i,
          time_unix_nano: this.line(i).start_unix_nano,
          level: this.d.rows[i - 1]!.entry.level,
          text: this.line(i).name,
          more: this.line(i).text,
          in: up && this.isSpan(up) ? this.line(up).name : ''
        })
      }
      list.sort((a, b) => Number((a.time_unix_nano ?? 0n) - (b.time_unix_nano ?? 0n)) || a.row - b.row)
      return { logs: list.slice(0, 1000), total: list.length }
    },
    find: ask => {
      const q = ask.q ?? ''
      if (isLimited(q)) throw limit('A query')
      const all = ask.what
        ? this.all.filter(i => (ask.what === 'error' ? isError(this.flags(i)) : isOpen(this.flags(i))))
        : this.hits(q)
      const list = all.filter(i => this.inside(i, ask.window ?? ''))
      const row =
        (ask.dir === 'next'
          ? (list.find(i => i > ask.at) ?? list[0])
          : ask.dir === 'prev'
            ? (list.findLast(i => i < ask.at) ?? list.at(-1))
            : list.find(i => i === ask.at)) ?? 0
      return {
        count: list.length,
        outside: all.length - list.length,
        index: list.indexOf(row) + 1,
        row,
        path: row ? this.path(row) : [],
        hints: [],
        words: /[{}]/.test(q) ? [] : wordsOf(q),
        known: true
      }
    },
    strip: ({ q }) => {
      const { strip } = this.d,
        hits = q ? strip.errors.map(() => 0) : [],
        [from, to] = this.whole
      for (const i of q ? this.hits(q) : []) {
        const start = this.line(i).start_unix_nano
        if (start === null) continue
        const part = Number(start - from) / Math.max(1, Number(to - from))
        hits[Math.min(hits.length - 1, Math.floor(part * hits.length))]!++
      }
      return { ...strip, hits }
    },
    why: ({ row, window, of }) => {
      const key = (i: number) => `${this.d.rows[i - 1]!.entry.name}\n${this.line(i).service}`,
        list = this.d.why[key(row)],
        outside = !this.inside(row, window)
      if (of.includes('-')) throw limit('A drawn selection')
      if (!list || (window && !outside)) throw limit(list ? 'Why in a part of the time' : 'Why of so many names')
      const took = this.line(row).took_nano,
        failed = isError(this.flags(row)),
        w = list.find(x => x.of === (of || (failed ? 'failed' : 'slow'))) ?? list[0]!
      return {
        ...w,
        outside,
        took_nano: took,
        open: isOpen(this.flags(row)),
        among: w.of === 'failed' ? failed : w.of === 'slow' && took !== null && took >= w.least_nano,
        faster: this.all.filter(i => {
          const x = this.line(i)
          return (
            this.isSpan(i) &&
            key(i) === key(row) &&
            !isOpen(x.flags) &&
            x.took_nano !== null &&
            x.took_nano < (took ?? 0n)
          )
        }).length
      }
    },
    table: ask => {
      if (ask.form || ask.window || (ask.q && ask.q !== this.d.meta.static)) throw limit('Another table')
      const at = Math.abs(ask.sort) - 1,
        lines = [...this.d.table.lines]
      if (at >= 0 && at < this.d.table.columns.length) {
        const kind = this.d.table.columns[at]!.kind
        const value = (v: string | number) => (kind === 'text' ? String(v) : Number(v))
        const order = (a: string | number | null, b: string | number | null) =>
          a === null || b === null
            ? Number(a === null) - Number(b === null)
            : Math.sign(ask.sort) * (Number(value(a) < value(b)) - Number(value(a) > value(b)))
        lines.sort((a, b) => order(a.values[at]!, b.values[at]!))
      }
      return { ...this.d.table, lines }
    },
    critical: ({ row }) => {
      let whole = row // the outermost span above the row
      while (whole && !this.isSpan(whole)) whole = this.up(whole)
      for (let up = whole; up && this.isSpan(up); up = this.up(up)) whole = up
      return this.d.paths[whole] ?? null
    },
    choice: () => {
      throw limit('A comparison of requests')
    },
    entry: ({ row }) => {
      const r = this.d.rows[row - 1]
      if (!r) throw limit('This row')
      return { ...r.entry, path: this.path(row) }
    },
    facets: ({ q, window }) => {
      if (q || window) throw limit('Facets of a part')
      return this.d.facets
    },
    lanes: q => {
      if (this.isPart(q)) throw limit('A part of the spans over time')
      return this.d.lanes
    },
    flame: q => {
      if (this.isPart(q)) throw limit('Another flame')
      return this.d.flames[q.by] ?? this.d.flames.time!
    },
    way: ({ q, root, window }) => {
      const rows = new Set<number>()
      for (const i of this.hits(q, window))
        if (i > root && i < this.end(root)) for (const up of this.above(i)) if (up >= root) rows.add(up)
      return { rows: [...rows].sort((a, b) => a - b).slice(0, 3800), more: rows.size > 3800 }
    }
  }

  // isPart reports whether a question is about only a part of the rows of the page.
  private isPart({ q, window, root }: Part) {
    return (q && q !== this.d.meta.static) || window || root
  }

  // above returns the rows above a row, the outermost first.
  private above(i: number): number[] {
    const out: number[] = []
    for (let up = this.up(i); up; up = this.up(up)) out.unshift(up)
    return out
  }

  private path(i: number): Place[] {
    return this.above(i).map(row => ({ row, name: this.line(row).name }))
  }
}
