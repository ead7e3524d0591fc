// The strip above every view shows how many rows begin in each part of the time. The user selects a time range in the
// strip.
import { useLatest } from './ask'
import { type Axis, clamp, steps, x } from './bars'
import { Canvas, onKeys, useChart } from './chart'
import * as page from './page'
import type { Pen } from './pen'
import * as search from './search'
import type { Strip as StripData } from './source'
import { count, duration, many, moment } from './text'
import * as time from './time'
import * as trace from './trace'

const height = 56,
  bars = 34,
  barWidth = 3
const edge = 5 // the distance in pixels within which an end of the chosen part can be dragged

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
  const chart = useChart(),
    { width } = chart.size.value
  const m = trace.meta.value!
  const axis: Axis = { from: m.first_unix_nano, to: m.last_unix_nano, width: Math.max(1, width) }
  chart.axis = axis
  const n = Math.max(1, Math.floor(width / barWidth))
  const q = search.found.value && !search.problem.value ? search.query.value : ''
  const { value: d } = useLatest('strip', width >= 1 && { n, q })
  time.strip.value = d
  const part = chart.brushed.value ?? period()
  // moved returns a part of the time that is moved, but not beyond the whole time.
  const moved = ({ from, to }: time.Period, by: bigint): time.Period => {
    if (from + by < axis.from) by = axis.from - from
    if (to + by > axis.to) by = axis.to - to
    return { from: from + by, to: to + by }
  }
  // A drag over the strip chooses a part of the time, moves one end of the chosen part, or moves the whole part.
  const press = (e: PointerEvent) => {
    if (e.button) return
    const at = chart.spot(e).x,
      was = period()
    const [from, to] = was ? [x(axis, was.from), x(axis, was.to)] : [-100, -100]
    const fixed = Math.abs(at - from) <= edge ? was?.to : Math.abs(at - to) <= edge ? was?.from : undefined
    chart.brush(e, (start, t) => {
      if (was && fixed === undefined && at > from && at < to) return moved(was, t - start)
      const other = fixed ?? start
      return other < t ? { from: other, to: t } : { from: t, to: other }
    })
  }
  // arrow moves the chosen part by a quarter of its length, or with Shift, the end of the part. If no part is chosen,
  // it chooses a tenth of the time at an end.
  const arrow = (sign: bigint) => (e: KeyboardEvent) => {
    const p = period(),
      tenth = (axis.to - axis.from) / 10n,
      by = p ? (sign * (p.to - p.from)) / 4n : 0n
    if (!p) time.choose(sign < 0n ? { from: axis.to - tenth, to: axis.to } : { from: axis.from, to: axis.from + tenth })
    else if (e.shiftKey) {
      const to = p.to + by > p.from ? p.to + by : p.to
      time.choose({ from: p.from < axis.from ? axis.from : p.from, to: to > axis.to ? axis.to : to })
    } else if (p.from + by >= axis.from && p.to + by <= axis.to) time.choose(moved(p, by))
  }
  const sum = (list: number[] | undefined) => (list ?? []).reduce((a, b) => a + b, 0)
  const says = d
    ? `Rows over time: ${many(sum(d.errors), 'error')}, ${sum(d.open)} never ended${d.hits.length ? `, ${many(sum(d.hits), 'hit')}` : ''}`
    : 'Rows over time'
  return (
    <div
      class="strip under sunk crosshair rel cut"
      ref={chart.box}
      role="group"
      tabIndex={0}
      aria-label={
        says +
        (part
          ? `. Chosen: ${moment(part.from, 3)}, ${duration(part.to - part.from)}`
          : '. Drag over it, or press the arrow keys, to choose a part')
      }
      title="Drag over a part to see only its rows; double-click for all"
      onPointerDown={press}
      onKeyDown={onKeys({ ArrowLeft: arrow(-1n), ArrowRight: arrow(1n) })}
      onDblClick={() => time.choose(null)}>
      <Canvas
        of={chart}
        name="strip"
        width={axis.width}
        height={height}
        paint={pen => d && paint(pen, d, axis, part, time.axis.value)}
      />
      {steps(axis, 110).map(
        (t, i) =>
          x(axis, t) < axis.width - 70 && (
            <span class="at abs" aria-hidden style={{ left: x(axis, t) + 2 + 'px' }}>
              {i ? moment(t, axis.to - axis.from < 10_000_000_000n ? 3 : 0) : moment(t, 3)}
            </span>
          )
      )}
      {part && (
        <span
          class="len round abs raised"
          aria-hidden
          style={{ left: clamp(0, x(axis, part.from) + 4, axis.width - 250) + 'px' }}>
          {moment(part.from, 3)} – {moment(part.to, 3)}, {duration(part.to - part.from)}
        </span>
      )}
    </div>
  )
}

// paint draws the strip.
function paint(pen: Pen, d: StripData, axis: Axis, part: time.Period | null, zoom: time.Period | null) {
  const { width } = axis
  const n = d.errors.length,
    each = width / n,
    sums = d.errors.map((_, i) => d.services.reduce((a, l) => a + l[i]!, 0)),
    most = Math.max(1, ...sums)
  const [from, to] = part ? [x(axis, part.from), x(axis, part.to)] : [0, width]
  for (const [i, sum] of sums.entries()) {
    const at = i * each,
      within = at + each > from && at < to
    // Heights grow with the square root of the number: otherwise small numbers next to large ones would be
    // invisible.
    const tall = Math.sqrt(sum / most) * bars
    let y = bars + 6
    d.services.forEach((list, k) => {
      if (!list[i]) return
      const h = Math.max(1, (list[i]! / sum) * tall)
      y -= h
      pen.fill((within ? 's' : 't') + k, at, y, Math.max(1, each - 0.6), h)
    })
    if (sum) pen.note('bar', at, y, each, bars + 6 - y)
    const wide = Math.max(2, each - 0.6)
    if (d.errors[i]) pen.put('error', 'err', at, 0, wide, 4)
    if (d.open[i]) pen.put('open', 'warn', at, 4, wide, 2)
    if (d.hits[i]) pen.put('hit', 'acc', at, bars + 6, wide, 3)
  }
  if (part) {
    pen.fill('shade', 0, 0, from, bars + 9)
    pen.fill('shade', to, 0, width - to, bars + 9)
    pen.outline('acc', from, 0, to - from, bars + 9.5, 1.5)
    pen.note('chosen', from, 0, to - from, bars + 8)
  }
  if (zoom) pen.put('axis', 'tx2', x(axis, zoom.from), bars + 9, Math.max(2, x(axis, zoom.to) - x(axis, zoom.from)), 2)
}

// Chosen shows which rows are omitted, and has buttons to show them.
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
          title="A window that moves with new rows"
          onClick={() => time.choose(last ? null : { last: 10_000_000_000n })}>
          Last 10 s
        </button>
      )}
      {c && (
        <button
          class="btn s"
          aria-pressed={time.inside.value}
          title="Hide rows outside of the window (i)"
          onClick={time.toggleInside}>
          Only the window
        </button>
      )}
      {time.idle().length > 0 && page.view.value === 'tree' && (
        <button class="btn s" aria-pressed={time.folded.value} title="Fold idle time (z)" onClick={time.fold}>
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
