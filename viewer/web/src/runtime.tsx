// The Go runtime below the rows, on the same time axis: heap, goroutines and collections.
import { signal } from '@preact/signals'
import { useAnswer } from './ask'
import { type Axis, x } from './bars'
import { Canvas } from './chart'
import * as page from './page'
import type { Pen, Point } from './pen'
import type { Runtime, Sample } from './source'
import { count, duration, many } from './text'
import * as time from './time'

export const hasRuntime = signal(false)

const height = 46

const bytes = (n: number) =>
  n >= 1 << 30
    ? (n / (1 << 30)).toFixed(1) + '\u202fGiB'
    : n >= 1 << 20
      ? (n / (1 << 20)).toFixed(1) + '\u202fMiB'
      : (n / 1024).toFixed(0) + '\u202fKiB'

export function RuntimeLane({ axis, left }: { axis: Axis; left: number }) {
  const { value: r } = useAnswer('runtime', {})
  hasRuntime.value = !!r && r.heap.length + r.collections.length > 0
  if (!r || !hasRuntime.value || !page.lane.value || time.byLength.value) return null
  return <Lane r={r} axis={axis} left={left} />
}

function Lane({ r, axis, left }: { r: Runtime; axis: Axis; left: number }) {
  const seen = (list: Sample[]) => list.filter(p => p.time_unix_nano >= axis.from && p.time_unix_nano <= axis.to)
  const heap = seen(r.heap),
    goroutines = seen(r.goroutines),
    gc = seen(r.collections)
  const most = (list: Sample[]) => Math.max(0, ...list.map(p => p.value))
  const says = [
    heap.length && `heap up to ${bytes(most(heap))}`,
    goroutines.length && `${count(most(goroutines))} goroutines at most`,
    gc.length &&
      `${many(
        gc.reduce((n, p) => n + p.count, 0),
        'collection'
      )}, longest pause ${duration(BigInt(Math.round(most(gc))))}`
  ]
    .filter(Boolean)
    .join(', ')
  return (
    <div class="lane over rel cut" style={{ height: height + 'px' }}>
      <span class="q el abs small" style={{ width: left - 20 + 'px' }}>
        <b>
          <i class="k h" /> heap <i class="k g" /> goroutines <i class="k c" /> GC
        </b>
        <br />
        {says || 'no sample in this time'}
      </span>
      <Canvas
        name="lane"
        width={axis.width}
        height={height}
        paint={pen => paint(pen, axis, r, most(heap), most(goroutines))}
        role="img"
        aria-hidden={undefined}
        aria-label={'Go runtime: ' + says}
        style={{ left: left + 'px' }}
      />
    </div>
  )
}

function paint(pen: Pen, axis: Axis, r: Runtime, mostHeap: number, mostGoroutines: number) {
  for (const p of r.collections) {
    const from = p.time_unix_nano,
      to = from + BigInt(Math.round(p.value))
    if (to < axis.from || from > axis.to) continue
    const at = x(axis, from)
    pen.put('gc', 'warn', at, 2, Math.max(1.5, x(axis, to) - at), height - 4)
  }
  const line = (list: Sample[], most: number, kind: string, color: string) => {
    if (!most) return
    const points = list.map((p): Point => [x(axis, p.time_unix_nano), height - 3 - (p.value / most) * (height - 8)])
    pen.line(color, points, 1.5)
    for (const [x, y] of points) if (x >= 0 && x <= axis.width) pen.note(kind, x, y, 0, 0)
  }
  line(r.heap, mostHeap, 'heap', 's0')
  line(r.goroutines, mostGoroutines, 'goroutines', 's3')
}
