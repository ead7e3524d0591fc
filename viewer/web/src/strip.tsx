// The strip above every view. It shows how many rows begin in each part of the time. The user selects a part of
// the time in it.
import { useSignal } from '@preact/signals'
import { useRef } from 'preact/hooks'
import { pull, spot, useLatest, usePaint, useWidth } from './ask'
import { type Axis, begin, clamp, color, frames, steps, timeAt, x } from './bars'
import * as page from './page'
import * as search from './search'
import type { Strip as StripData } from './source'
import { count, duration, many, moment } from './text'
import * as time from './time'
import * as trace from './trace'

const height = 56,
  bars = 34,
  barWidth = 3
const edge = 5 // in pixels; so close to an end of the chosen part, the end can be dragged

// A Shape is a shape that was drawn.
interface Shape {
  kind: 'bar' | 'error' | 'open' | 'hit' | 'chosen' | 'axis'
  x: number
  width: number
  height: number
}

// period returns the chosen part of the time, or null if no part is chosen.
export function period(): time.Period | null {
  const c = time.chosen.value,
    m = trace.meta.value!
  if (!c) return null
  if ('from' in c) return c
  const last = m.last_unix_nano,
    first = m.first_unix_nano,
    from = last - c.last
  return { from: from > first ? from : first, to: last }
}

export function Strip() {
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box),
    pulled = useSignal<time.Period | null>(null)
  const m = trace.meta.value!
  const axis: Axis = { from: m.first_unix_nano, to: m.last_unix_nano, width: Math.max(1, width) }
  const n = Math.max(1, Math.floor(width / barWidth))
  const q = search.found.value && !search.problem.value ? search.query.value : ''
  useLatest(width < 1 ? '' : `${n} ${m.entries} ${m.generation} ${q}`, async () => {
    time.strip.value = await trace.source.strip(n, q)
  })
  const part = pulled.value ?? period()
  const canvas = usePaint(canvas => {
    frames.strip = paint(canvas, time.strip.value, axis, part, time.axis.value)
  })
  const timeOf = (e: PointerEvent) => timeAt(axis, clamp(0, spot(box, e).x / axis.width, 1))
  // A drag over the strip chooses a part of the time, moves one end of the chosen part, or moves the whole part.
  const begin = (e: PointerEvent) => {
    if (e.button) return
    const at = spot(box, e).x,
      was = period(),
      start = timeOf(e)
    const [from, to] = was ? [x(axis, was.from), x(axis, was.to)] : [-100, -100]
    const way =
      Math.abs(at - from) <= edge ? 'from' : Math.abs(at - to) <= edge ? 'to' : at > from && at < to ? 'move' : 'draw'
    const next = (e: PointerEvent): time.Period => {
      const t = timeOf(e)
      const fixed = way === 'from' ? was!.to : way === 'to' ? was!.from : start
      if (way !== 'move') return fixed < t ? { from: fixed, to: t } : { from: t, to: fixed }
      let by = t - start
      if (was!.from + by < axis.from) by = axis.from - was!.from
      if (was!.to + by > axis.to) by = axis.to - was!.to
      return { from: was!.from + by, to: was!.to + by }
    }
    cancel = pull(e, pulled, next, p => p && time.choose(p))
  }
  const key_ = (e: KeyboardEvent) => {
    const span = axis.to - axis.from,
      p = period()
    const act = (next: time.Period) => {
      e.preventDefault()
      e.stopPropagation()
      time.choose({
        from: next.from < axis.from ? axis.from : next.from,
        to: next.to > axis.to ? axis.to : next.to
      })
    }
    if (e.key === 'Escape' && pulled.value) {
      cancel()
      e.stopPropagation()
      return
    }
    const step = p ? (p.to - p.from) / 4n : span / 10n
    if (e.key === 'ArrowLeft' || e.key === 'ArrowRight') {
      const by = e.key === 'ArrowLeft' ? -step : step
      if (!p)
        act(e.key === 'ArrowLeft' ? { from: axis.to - step, to: axis.to } : { from: axis.from, to: axis.from + step })
      else if (e.shiftKey) act({ from: p.from, to: p.to + by > p.from ? p.to + by : p.to })
      else if (p.from + by >= axis.from && p.to + by <= axis.to) act({ from: p.from + by, to: p.to + by })
      else {
        e.preventDefault()
        e.stopPropagation()
      }
    }
  }
  const d = time.strip.value
  const sum = (list: number[] | undefined) => (list ?? []).reduce((a, b) => a + b, 0)
  const says = d
    ? `Rows over time: ${many(sum(d.errors), 'error')}, ${sum(d.open)} never ended${d.hits.length ? `, ${many(sum(d.hits), 'hit')}` : ''}`
    : 'Rows over time'
  return (
    <div
      class="strip"
      ref={box}
      role="group"
      tabIndex={0}
      aria-label={
        says +
        (part
          ? `. Chosen: ${moment(part.from, 3)}, ${duration(part.to - part.from)}`
          : '. Draw over it, or press the arrows, to choose a part')
      }
      title="Draw over a part to see its rows alone; double click for all"
      onPointerDown={begin}
      onKeyDown={key_}
      onDblClick={() => time.choose(null)}>
      <canvas ref={canvas} aria-hidden />
      {steps(axis, 110).map(
        (t, i) =>
          x(axis, t) < axis.width - 70 && (
            <span class="at" aria-hidden style={{ left: x(axis, t) + 2 + 'px' }}>
              {i ? moment(t, axis.to - axis.from < 10_000_000_000n ? 3 : 0) : moment(t, 3)}
            </span>
          )
      )}
      {part && (
        <span class="len" aria-hidden style={{ left: clamp(0, x(axis, part.from) + 4, axis.width - 250) + 'px' }}>
          {moment(part.from, 3)} – {moment(part.to, 3)}, {duration(part.to - part.from)}
        </span>
      )}
    </div>
  )
}
let cancel = () => {}

// paint draws the strip.
function paint(
  canvas: HTMLCanvasElement,
  d: StripData | null,
  axis: Axis,
  part: time.Period | null,
  zoom: time.Period | null
): Shape[] {
  const width = axis.width,
    c = begin(canvas, width, height)
  const shapes: Shape[] = []
  if (!d) return shapes
  const n = d.errors.length,
    each = width / n,
    most = Math.max(1, ...d.errors.map((_, i) => d.services.reduce((a, l) => a + l[i]!, 0)))
  const [from, to] = part ? [x(axis, part.from), x(axis, part.to)] : [0, width]
  for (let i = 0; i < n; i++) {
    const at = i * each,
      within = at + each > from && at < to
    // Heights grow with the square root of the number: otherwise small numbers next to large ones would be
    // invisible.
    const sum = d.services.reduce((a, l) => a + l[i]!, 0),
      tall = Math.sqrt(sum / most) * bars
    let y = bars + 6,
      all = 0
    d.services.forEach((list, k) => {
      if (!list[i]) return
      const h = Math.max(1, (list[i]! / sum) * tall)
      c.fillStyle = color((within ? 's' : 't') + k)
      y -= h
      c.fillRect(at, y, Math.max(1, each - 0.6), h)
      all += h
    })
    if (all) shapes.push({ kind: 'bar', x: at, width: each, height: all })
    const mark = (kind: Shape['kind'], top: number, h: number, name: string) => {
      c.fillStyle = color(name)
      c.fillRect(at, top, Math.max(2, each - 0.6), h)
      shapes.push({ kind, x: at, width: each, height: h })
    }
    if (d.errors[i]) mark('error', 0, 4, 'err')
    if (d.open[i]) mark('open', 4, 2, 'warn')
    if (d.hits[i]) mark('hit', bars + 6, 3, 'acc')
  }
  if (part) {
    c.fillStyle = color('shade')
    c.fillRect(0, 0, from, bars + 9)
    c.fillRect(to, 0, width - to, bars + 9)
    c.strokeStyle = color('acc')
    c.lineWidth = 1.5
    c.strokeRect(from + 0.75, 0.75, Math.max(2, to - from - 1.5), bars + 8)
    shapes.push({ kind: 'chosen', x: from, width: to - from, height: bars + 8 })
  }
  if (zoom) {
    const [a, b] = [x(axis, zoom.from), x(axis, zoom.to)]
    c.fillStyle = color('tx2')
    c.fillRect(a, bars + 9, Math.max(2, b - a), 2)
    shapes.push({ kind: 'axis', x: a, width: b - a, height: 2 })
  }
  return shapes
}

// Chosen shows which rows are omitted, and has buttons to change that.
export function Chosen() {
  const c = time.chosen.value,
    m = trace.meta.value!
  const last = c && 'last' in c
  return (
    <>
      {c && page.view.value === 'tree' && time.inside.value && time.outside.value > 0 && (
        <span class="q">{many(time.outside.value, 'root')} outside</span>
      )}
      {m.follow && (
        <button
          class="btn s"
          aria-pressed={!!last}
          title="A part of the time that moves with what is new"
          onClick={() => time.choose(last ? null : { last: 10_000_000_000n })}>
          Last 10 s
        </button>
      )}
      {c && (
        <button
          class="btn s"
          aria-pressed={time.inside.value}
          title="Leave out what lies outside (i)"
          onClick={time.toggleInside}>
          Only the window
        </button>
      )}
      {time.idle().length > 0 && page.view.value === 'tree' && (
        <button
          class="btn s"
          aria-pressed={time.folded.value}
          title="Take no room for long times without anything (z)"
          onClick={time.fold}>
          Fold {count(time.idle().length)} idle
        </button>
      )}
      {(c || time.axis.value) && (
        <button
          class="btn s"
          onClick={() => {
            time.axis.value = null
            if (c) time.choose(null)
          }}>
          All time
        </button>
      )}
    </>
  )
}
