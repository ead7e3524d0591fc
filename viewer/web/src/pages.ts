// The rows of the tree, which are loaded in parts.
import { notice } from './page'
import { textOf } from './search'
import { Problem, type Rows, type Shape, type TreeRow } from './source'
import { source } from './trace'

// pageSize is the number of rows in a part.
export const pageSize = 100

// A Pages holds the loaded rows of a shape, in parts.
export class Pages {
  private parts: Rows[] = []
  private ups = new WeakMap<TreeRow, TreeRow>() // the row above each row
  private asked = new Map<number, AbortController>()
  private failed = new Set<number>()
  total = -1
  outside = 0
  from = 0n
  to = 0n

  constructor(
    public shape: Shape,
    readonly q: string,
    private changed: (opened: number[] | null) => void, // called with the rows that the server has opened
    readonly fill = 0
  ) {}

  // waits reports whether a request for rows is pending. With last, it considers only a request for the last rows.
  waits(last = false): boolean {
    return last ? this.asked.has(-1) : this.asked.size > 0
  }

  // want requests the rows at positions from to to, unless they are loaded.
  want(from: number, to: number) {
    for (let p = Math.floor(Math.max(0, from) / pageSize); p <= Math.floor(Math.max(0, to - 1) / pageSize); p++) {
      const begin = Math.max(from, p * pageSize),
        end = Math.min(to, (p + 1) * pageSize, this.total < 0 ? to : Math.max(1, this.total))
      if (
        begin < end &&
        !this.asked.has(p) &&
        !this.failed.has(p) &&
        !this.parts.some(
          r => r.first <= begin && (end <= r.first + r.rows.length || r.first + r.rows.length === r.total)
        )
      )
        this.load(p)
    }
  }

  // wantLast requests the last n rows. The server decides which rows these are, because the trace may grow.
  wantLast(n: number) {
    if (!this.asked.has(-1)) this.load(-1, n)
  }

  private async load(p: number, n = pageSize) {
    const stop = new AbortController()
    this.asked.set(p, stop)
    let opened: number[] | null = null
    try {
      const fill = p === 0 && this.fill ? { fill: this.fill } : {}
      const r = await source.ask(
        'rows',
        { ...this.shape, ...(p < 0 ? { last: true } : { first: p * pageSize }), n, q: this.q, ...fill },
        stop.signal
      )
      this.take(r)
      if (this.fill) opened = r.toggled ?? []
    } catch (e) {
      if (stop.signal.aborted) return
      this.failed.add(p)
      notice.value = textOf(e)
      if (!(e instanceof Problem))
        setTimeout(() => {
          this.failed.delete(p)
          this.changed(null)
        }, 2000)
    }
    this.asked.delete(p)
    this.changed(opened)
  }

  private take(r: Rows) {
    this.total = r.total
    this.outside = r.outside
    this.from = r.from_nano
    this.to = r.to_nano
    const ups: TreeRow[] = [] // possible rows above the next row
    for (const x of [...r.above, ...r.rows]) {
      while (ups.length && ups.at(-1)!.depth >= x.depth) ups.pop()
      if (ups.length) this.ups.set(x, ups.at(-1)!)
      ups.push(x)
    }
    if (this.parts.length > 20) this.parts.shift()
    this.parts.push(r)
  }

  // unreadable reports whether a request for the row at a position has failed.
  unreadable(i: number): boolean {
    return this.failed.has(Math.floor(i / pageSize))
  }

  at(i: number): TreeRow | null {
    const page = this.parts.findLast(r => r.first <= i && i < r.first + r.rows.length)
    return page ? page.rows[i - page.first]! : null
  }

  // place returns the position of a row, or -1 if the row is not loaded.
  place(row: number): number {
    for (const page of this.parts) {
      const k = page.rows.findIndex(r => r.row === row)
      if (k >= 0) return page.first + k
    }
    return -1
  }

  // up returns the parent of a row, if it is loaded.
  up(r: TreeRow): TreeRow | undefined {
    return this.ups.get(r)
  }

  // above returns the ancestors of the row at a position, the outermost first.
  above(i: number): TreeRow[] {
    const out: TreeRow[] = []
    for (let r = this.at(i); r; ) {
      r = this.up(r) ?? null
      if (r) out.unshift(r)
    }
    return out
  }

  stop() {
    for (const s of this.asked.values()) s.abort()
  }
}
