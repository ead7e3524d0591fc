// The visible rows of the tree.
import { batch, effect, signal, untracked } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { clamp } from './bars'
import * as follow from './follow'
import { staying } from './indent'
import * as page from './page'
import { Pages, pageSize } from './pages'
import { says } from './row'
import * as search from './search'
import * as selection from './selection'
import { isExpanded, isParent, type Shape, type TreeRow } from './source'
import * as time from './time'
import * as trace from './trace'

// A Scroll has the loaded rows, and the position of the visible rows.
class Scroll {
  pages!: Pages // the rows of the current shape
  shown!: Pages // equal to pages, or the previous pages until the visible rows of pages are loaded
  top = 0 // the position of the first visible row
  full = 0 // the number of rows that fit
  visible = 0 // the number of rows that fit, including partly visible rows
  atEnd = true
  private sticky: TreeRow[] = []
  private most = 6 // the maximum number of rows that stay at the top
  private height = 22 // of a row, in pixels
  private readonly version = signal(0) // changes when there are other rows
  private readonly first = signal(0) // the position to which the user has scrolled; it may be between two rows
  private sticks = false // whether the end stays visible
  private awaited = -1 // the position of a row to select once it is loaded; -1: no row, Infinity: the last row
  private late = false // whether rows were added since the last request

  // use makes new pages for a shape and a query. The parameter fill is the minimum number of rows that the server
  // opens.
  use(shape: Shape, q: string, fill: number) {
    const was = this.pages
    if (was?.shape === shape && was.q === q && (was.fill === fill || was.total >= 0)) return
    if (was?.shape !== shape) this.awaited = -1
    this.replace(new Pages(shape, q, this.changed, fill))
  }

  private replace(next: Pages) {
    this.pages?.stop()
    this.pages = next
    if (!(this.shown?.total >= 0)) this.shown = next
    this.version.value++
  }

  // changed is called when rows have arrived. The parameter opened has the rows that the server has opened for the
  // first answer. These rows become the open rows.
  private changed = (opened: number[] | null) => {
    if (opened)
      batch(() => {
        selection.opened.value = true
        if (opened.length) selection.toggled.value = opened.sort((a, b) => a - b)
        this.pages.shape = selection.shape.peek() // the pages already have the rows of this shape
      })
    if (this.pages.total >= 0 && !this.pages.waits()) this.shown = this.pages
    this.version.value++
    if (this.late && !this.pages.waits()) this.renew()
  }

  // renew requests the rows again, because rows were added. If answers are pending, it waits until they have arrived.
  renew() {
    this.late = this.pages.waits()
    if (this.late) return
    if (this.atEnd && this.pages.total > 0) this.sticks = true
    this.askAgain()
  }

  // askAgain makes new pages. The old pages are shown until the new pages are loaded. If the end must stay visible,
  // one request loads the last rows, even if the end moves in the meantime.
  private askAgain() {
    const { shape, q } = this.pages
    this.replace(new Pages(shape, q, this.changed))
    if (this.sticks && page.view.value === 'tree') this.pages.wantLast(Math.min(500, this.visible + 20))
  }

  // look finds the visible rows of a box of the given height. The parameter most is the maximum number of rows that
  // stay at the top. The tree calls look at each rendering, and settle after it.
  look(box: number, height: number, most: number) {
    void this.version.value
    const scrolled = this.first.value, // always read, so that the tree is rendered again when it changes
      p = this.shown
    this.height = height
    this.most = most
    this.full = Math.floor(box / height)
    this.visible = Math.ceil(box / height) + 1
    this.top = this.sticks && !this.pages.waits(true) ? this.bottom() : Math.min(Math.floor(scrolled), this.bottom())
    this.atEnd = p.total >= 0 && this.top + this.full >= p.total
    const rows: { i: number; at: TreeRow | null }[] = []
    for (let i = this.top; i < Math.min(this.top + this.visible, p.total); i++) rows.push({ i, at: p.at(i) })
    // The ancestors of the first row below them stay at the top.
    const all = staying(n => p.above(this.top + n), most)
    this.sticky = all.filter(a => {
      const i = p.place(a.row)
      return i < 0 || i < this.top + all.length
    })
    return { rows, sticky: this.sticky }
  }

  // settle requests the visible rows, and selects a row that was awaited.
  settle() {
    const ending = this.pages.waits(true)
    if (!ending) {
      if (this.sticks) this.first.value = this.top
      this.pages.want(this.top, this.top + this.visible)
    }
    if (this.atEnd && !follow.paused.value) follow.fresh.value = 0
    const i = Math.min(this.awaited, this.shown.total - 1)
    if (!ending && this.shown.at(i)) this.select(i)
  }

  // bottom returns the position of the first visible row when the tree is scrolled to the last row.
  bottom() {
    return Math.max(0, this.shown.total - this.full)
  }

  // begin scrolls to the first row.
  begin() {
    this.first.value = 0
  }

  // moved cancels a pending request to scroll to a row, because the user scrolls elsewhere.
  moved = () => {
    this.sticks = false
    this.awaited = -1
    if (selection.wanted.peek()?.may) selection.wanted.value = null
  }

  to(i: number) {
    this.moved()
    this.first.value = clamp(0, i, this.bottom())
  }

  by = (pixels: number) => {
    this.first.value = clamp(0, this.first.peek() + pixels / this.height, this.bottom())
  }

  toEnd(awaited = -1) {
    this.sticks = true
    this.awaited = awaited
    this.askAgain()
  }

  select(i: number) {
    const at = this.shown.at(i),
      above = Math.min(this.shown.above(i).length, this.most, Math.max(0, this.full - 2)) // the rows that stay at the top
    if (i < this.top + above) this.to(i - above)
    else if (i >= this.top + this.full) this.to(i - this.full + 1)
    this.awaited = at ? -1 : i
    if (at) this.say(at)
  }

  private say(at: TreeRow) {
    page.selected.value = at.row
    page.spoken.value = says(at)
  }

  selectedAt() {
    return this.awaited >= 0 ? this.awaited : this.shown.place(page.selected.value)
  }

  private choose(i: number) {
    const { total } = this.shown
    if (total > 0) this.select(clamp(0, i, total - 1))
  }

  move(by: number) {
    const at = this.selectedAt()
    this.choose(at < 0 ? this.top : at + by)
  }

  turn(pages: number) {
    this.move(pages * (this.full - 1))
  }

  end(last: boolean) {
    if (last) this.toEnd(Number.POSITIVE_INFINITY)
    else this.choose(0)
  }

  // open opens the selected row, or goes to the next row if the selected row is open.
  open() {
    const at = this.shown.at(this.selectedAt())
    if (!at) return
    if (isParent(at.flags) && !isExpanded(at.flags)) selection.toggle(at.row)
    else this.move(1)
  }

  // close closes the selected row, or goes to the row above it if the selected row is closed.
  close() {
    const p = this.shown,
      i = this.selectedAt(),
      at = p.at(i)
    if (!at) return
    if (isExpanded(at.flags)) {
      selection.toggle(at.row)
      return
    }
    const up = p.above(i).at(-1)
    if (!up) return
    this.say(up)
    const k = p.place(up.row)
    if (k >= 0) this.select(k)
    else selection.wanted.value = { row: up.row }
  }

  // more opens one more level below the visible open rows.
  more() {
    let levels = 0
    for (let i = this.top; i < this.top + this.visible; i++) {
      const at = this.shown.at(i)
      if (at && isExpanded(at.flags)) levels = Math.max(levels, at.depth + 1)
    }
    selection.open(1 + levels)
  }

  // root shows only the selected row and the rows below it.
  root() {
    const at = this.shown.at(this.selectedAt()),
      e = page.entry.value
    if (at ? isParent(at.flags) : e?.row === page.selected.value && e.below > 0)
      selection.subtree(at ? at.row : page.selected.value)
  }

  // hold keeps the selected row visible, or, if it is not visible, keeps the first row at its place.
  hold() {
    const i = this.selectedAt(),
      first = this.top ? this.shown.at(this.top + this.sticky.length)?.row : 0,
      stays = i >= this.top && i < this.top + this.full ? page.selected.peek() : first
    if (stays && !this.sticks && !selection.wanted.peek()) selection.wanted.value = { row: stays, may: true }
  }

  // reach scrolls to the wanted row, and loads rows if necessary.
  async reach() {
    const want = selection.wanted.peek(),
      p = this.shown
    if (!want || this.pages !== p) return // until the new rows are loaded
    this.sticks = false
    const third = Math.floor(this.full / 3),
      known = p.place(want.row)
    const show = (at: TreeRow | null) => {
      if (at && want.follow) time.follow(at)
    }
    if (known >= 0) {
      selection.wanted.value = null
      show(p.at(known))
      if (known < this.top + 6 || known >= this.top + this.full) this.to(known - third)
      return
    }
    const r = await trace.source.ask('rows', { ...p.shape, at: want.row, n: pageSize }).catch(() => null)
    if (selection.wanted.peek() !== want || (r && this.pages !== p)) return // the positions of rows may have changed
    const k = r ? r.rows.findIndex(x => x.row === want.row) : -1
    if (r && k < 0 && !want.may && time.windowText.peek()) {
      page.tell('The row lies outside of the chosen time: all rows are shown')
      time.toggleInside()
      return
    }
    selection.wanted.value = null
    if (!r) return
    if (k >= 0) {
      show(r.rows[k]!)
      this.first.value = Math.max(0, r.first + k - third)
    } else if (want.may) this.to(r.first)
  }
}

export const scroll = new Scroll()

effect(() => {
  const shape = selection.shape.value,
    q = search.query.value,
    fill = selection.opened.value ? 0 : 40
  untracked(() => scroll.use(shape, q, fill))
})

// useTouch lets a finger move the rows. When the finger is lifted, the rows glide on for a while.
export function useTouch(box: { current: HTMLElement | null }) {
  useEffect(() => {
    let at = 0,
      speed = 0,
      time = 0,
      glide = 0
    const touch = (e: TouchEvent) => {
      cancelAnimationFrame(glide)
      at = e.touches[0]!.clientY
      time = e.timeStamp
      speed = 0
      scroll.moved()
    }
    const drag = (e: TouchEvent) => {
      if (e.touches.length > 1) return
      e.preventDefault()
      const y = e.touches[0]!.clientY
      speed = (at - y) / Math.max(1, e.timeStamp - time)
      scroll.by(at - y)
      at = y
      time = e.timeStamp
    }
    const leave = () => {
      if (matchMedia('(prefers-reduced-motion: reduce)').matches) return
      const on = () => {
        scroll.by(speed * 16)
        speed *= 0.95
        if (Math.abs(speed) > 0.02) glide = requestAnimationFrame(on)
      }
      glide = requestAnimationFrame(on)
    }
    const el = box.current!,
      listen = new AbortController(),
      { signal } = listen
    el.addEventListener('touchstart', touch, { passive: true, signal })
    el.addEventListener('touchmove', drag, { passive: false, signal })
    el.addEventListener('touchend', leave, { passive: true, signal })
    return () => {
      cancelAnimationFrame(glide)
      listen.abort()
    }
  }, [])
}
