// The code that all charts share: the canvas and its size, keys, the pointer and the wheel, and the part of the time
// that a drag covers.
import { signal } from '@preact/signals'
import { type CanvasHTMLAttributes, createRef } from 'preact'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import { pull, spot } from './ask'
import { type Axis, clamp, steps, timeAt, x, zoomOf } from './bars'
import * as page from './page'
import { Pen } from './pen'
import { duration, moment } from './text'
import * as time from './time'

// drawn has the last drawn marks of each chart, for tests of the page.
export const drawn: Record<string, object[]> = { tree: [], strip: [], flame: [], lanes: [], lane: [], heat: [] }

// A Chart is an element with a canvas.
export class Chart {
  readonly box = createRef<HTMLDivElement>()
  readonly canvas = createRef<HTMLCanvasElement>()
  readonly size
  readonly brushed = signal<time.Period | null>(null) // the part of the time that a drag covers
  readonly cross = signal<number | null>(null) // the position of the pointer on the axis, from 0 to 1
  axis: Axis = { from: 0n, to: 1n, width: 1 } // set at each rendering of a chart with an axis
  cancel = () => {} // cancels the last drag

  constructor(
    readonly left: number, // where the axis begins on the canvas
    width: number,
    height: number
  ) {
    this.size = signal({ width, height })
  }

  // spot returns the position of the pointer on the canvas; place, its position on the axis, from 0 to 1; and at, the
  // time below it.
  spot = (e: MouseEvent) => spot(this.canvas, e)
  place = (e: MouseEvent) => clamp(0, (this.spot(e).x - this.left) / this.axis.width, 1)
  at = (e: MouseEvent) => timeAt(this.axis, this.place(e))

  // brush lets a drag choose a part of the time: the part between the two ends of the drag, or another part that next
  // returns.
  brush(e: PointerEvent, next = (from: bigint, to: bigint) => (from < to ? { from, to } : { from: to, to: from })) {
    const from = this.at(e)
    this.cancel = pull(
      e,
      this.brushed,
      e => next(from, this.at(e)),
      part => part && time.choose(part),
      true
    )
  }
}

// useChart returns the chart of a component, whose element must have the ref box. The size of the chart is known once
// the element is in the page.
export function useChart(left = 0, width = 0, height = 0): Chart {
  const chart = useMemo(() => new Chart(left, width, height), [])
  useEffect(() => {
    const box = chart.box.current!
    const watch = new ResizeObserver(() => {
      chart.size.value = { width: box.clientWidth, height: box.clientHeight }
    })
    watch.observe(box)
    return () => {
      watch.disconnect()
      chart.cancel()
    }
  }, [])
  return chart
}

// Canvas is drawn after each rendering, and when the colors change.
export function Canvas({
  of,
  name,
  width,
  height,
  paint,
  ...rest
}: {
  of?: Chart
  name: string
  width: number
  height: number
  paint: (pen: Pen) => void
} & CanvasHTMLAttributes<HTMLCanvasElement>) {
  const own = useRef<HTMLCanvasElement>(null),
    canvas = of?.canvas ?? own
  void page.theme.value
  void page.byName.value
  useEffect(() => {
    const pen = new Pen(canvas.current!, width, height)
    paint(pen)
    drawn[name] = pen.marks
  })
  return <canvas ref={canvas} aria-hidden {...rest} />
}

// onKeys returns a handler that calls the action of a key. If an action returns false, other handlers get the key.
export const onKeys = (actions: Record<string, (e: KeyboardEvent) => unknown>) => (e: KeyboardEvent) => {
  const act = actions[e.key]
  if (!act || act(e) === false) return
  e.preventDefault()
  e.stopPropagation()
}

// moves has the functions of keys and the wheel for the visible axis. The chart with the axis sets these functions.
export const moves = {
  zoom: (_by: number, _at?: number) => {}, // at is a position on the axis, from 0 to 1
  pan: (_by: number) => {},
  fit: () => {}, // fits the axis to the chosen row
  short: () => {} // omits short spans
}

// useWheel makes the wheel over a chart zoom the time with Ctrl, and move the time with Shift. Without these keys,
// the wheel calls scroll, or lets the browser scroll if scroll is not set.
export function useWheel(chart: Chart, scroll?: (pixels: number) => void) {
  useEffect(() => {
    const box = chart.box.current!
    const wheel = (e: WheelEvent) => {
      if (e.ctrlKey || e.metaKey) moves.zoom(zoomOf(e), chart.place(e))
      else if (e.shiftKey || (scroll && Math.abs(e.deltaX) > Math.abs(e.deltaY)))
        moves.pan((e.deltaX || e.deltaY) / 1000)
      else if (scroll) scroll(e.deltaY)
      else return
      e.preventDefault()
    }
    box.addEventListener('wheel', wheel, { passive: false })
    return () => box.removeEventListener('wheel', wheel)
  }, [])
}

// digits returns how many digits of a second the times of an axis have.
const digits = (a: Axis) => (a.to - a.from < 10_000n ? 9 : a.to - a.from < 10_000_000n ? 6 : 3)

// Ruler writes the times of an axis. If lengths is set, it writes lengths of time.
export const Ruler = ({ axis, left, lengths = false }: { axis: Axis; left: number; lengths?: boolean }) => (
  <>
    {steps(axis)
      .filter((t, i) => (!i || x(axis, t) > 105) && x(axis, t) < axis.width - (i ? 55 : 110))
      .map((t, i) => (
        <span class="abs nowrap" style={{ left: x(axis, t) + left + 'px' }}>
          {lengths ? duration(t) : i && !axis.folds?.length ? '+' + duration(t - axis.from) : moment(t, digits(axis))}
        </span>
      ))}
  </>
)

// Over draws over a chart: the time below the pointer, and the part of the time that a drag covers. The axis begins
// at the position left.
export function Over({ of, axis, left }: { of: Chart; axis: Axis; left: number }) {
  const c = of.cross.value,
    b = of.brushed.value
  if (b)
    return (
      <div
        class="brush column"
        style={{ left: left + x(axis, b.from) + 'px', width: x(axis, b.to) - x(axis, b.from) + 'px' }}>
        <span class="tip round abs raised small nowrap">{duration(b.to - b.from)}</span>
      </div>
    )
  if (c === null || axis.to <= axis.from) return null
  const t = timeAt(axis, c)
  return (
    <div class="cross column" style={{ left: left + c * axis.width + 'px' }}>
      <span class={'tip round abs raised small nowrap' + (c > 0.8 ? ' l' : '')}>
        {axis.from > 0n && moment(t, Math.min(6, digits(axis))) + ', '}+{duration(t - axis.from)}
      </span>
    </div>
  )
}
