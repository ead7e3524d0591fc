// The bars of the visible rows, drawn onto one canvas.
import type { Pen } from './pen'
import { hasSpans, isError, isOpen, levelOf, roleEvent, roleOf, roleSpan, type TreeRow } from './source'

export interface Bar {
  y: number
  of: TreeRow
  by: bigint // subtracted from the row's times to get times of the axis
  shade: number
  parts: { from: number; to: number; shade: number }[]
  path: Period[]
  states: string[]
}

// An Axis shows the time between two times. The folds are periods without a width on the axis. Folds are in order,
// lie within the axis, and do not overlap.
export interface Axis {
  from: bigint
  to: bigint
  width: number
  folds?: Period[]
}
export interface Period {
  from: bigint
  to: bigint
}

// foldsIn returns the parts of periods that lie between two times.
export const foldsIn = (all: Period[], from: bigint, to: bigint): Period[] =>
  all.map(f => ({ from: f.from > from ? f.from : from, to: f.to < to ? f.to : to })).filter(f => f.to > f.from)

// spanOf returns how much time an axis shows, without the folds.
const spanOf = (a: Axis) => {
  const n = (a.folds ?? []).reduce((n, f) => n - (f.to - f.from), a.to - a.from)
  return n > 0n ? n : 1n
}

// x returns the position of a time on the axis, in pixels. A position far outside the axis is moved close to an end
// of the axis.
export function x(a: Axis, t: bigint): number {
  let since = t - a.from
  for (const f of a.folds ?? []) if (t > f.from) since -= (t < f.to ? t : f.to) - f.from
  const parts = (since * 1_000_000n) / spanOf(a)
  return clamp(-10, (Number(parts) / 1e6) * a.width, a.width + 10)
}

// timeAt returns the time at a position on the axis, from 0 to 1.
export function timeAt(a: Axis, part: number): bigint {
  let t = a.from + (spanOf(a) * BigInt(Math.round(part * 1e6))) / 1_000_000n
  for (const f of a.folds ?? []) if (t > f.from) t += f.to - f.from
  return t
}

// whole has the round steps of clocks and calendars from a minute to a day.
const whole = [1, 2, 5, 10, 15, 30, 60, 180, 360, 720, 1440].map(n => BigInt(n) * 60_000_000_000n)

// clamp returns the number between least and most that is nearest to n. If most is below least, it returns least.
export const clamp = (least: number, n: number, most: number) => Math.max(least, Math.min(most, n))

// A Cell of the map of requests has a column x for the time and a row y for the duration.
export interface Cell {
  x: number
  y: number
  count: number
  failed: number
}

// quantiles returns the q-quantile of the durations for each column. Adjacent columns with fewer than 12 requests get a
// common value. The parameter edges has the smallest duration of each row, followed by the end of the last row.
export function quantiles(cells: Cell[], columns: number, edges: number[], q: number): number[] {
  const out: number[] = []
  let group: Cell[] = [],
    n = 0,
    i = 0
  for (let x = 0; x < columns; x++) {
    for (; cells[i]?.x === x; i++)
      if (cells[i]!.y < edges.length - 1) {
        group.push(cells[i]!)
        n += cells[i]!.count
      }
    if (n < 12) continue
    group.sort((a, b) => a.y - b.y)
    let k = 0
    for (let below = group[0]!.count; below < n * q; below += group[k]!.count) k++
    while (out.length <= x) out.push(edges[group[k]!.y + 1]!)
    group = []
    n = 0
  }
  while (out.length && out.length < columns) out.push(out.at(-1)!)
  return out
}

// zoomOf returns the factor by which a wheel or a pinch zooms, so that the zoom follows the fingers.
export const zoomOf = (e: WheelEvent) => clamp(0.8, Math.exp(((e.deltaMode ? 40 : 1) * e.deltaY) / 100), 1.25)

// steps returns the times at which an axis has lines. The times are round, and there are as many as fit.
export function steps(a: Axis, room = 70): bigint[] {
  const span = a.to - a.from
  if (span <= 0n || a.width < room) return []
  if (a.folds?.length) return foldedSteps(a, room)
  const most = BigInt(Math.max(1, Math.floor(a.width / room))),
    want = (span + most - 1n) / most
  let step = want > 30_000_000_000n ? (whole.find(s => s >= want) ?? whole.at(-1)!) : 1n
  while (step < want) step = [2n, 5n, 10n].map(f => step * f).find(s => s >= want) ?? step * 10n
  const out: bigint[] = []
  for (let t = 0n; t <= span; t += step) out.push(a.from + t)
  return out
}

// foldedSteps returns the times of evenly spaced lines. With folds, lines at round times would not be evenly
// spaced.
function foldedSteps(a: Axis, room: number): bigint[] {
  const n = Math.max(1, Math.floor(a.width / room / 2))
  return Array.from({ length: n + 1 }, (_, i) => timeAt(a, i / n))
}

const barTop = 6,
  barHeight = 10

// The colors of the states of goroutines, in both themes.
export const stateColors: Record<string, string> = {
  running: '#2e9e5b',
  runnable: '#e8b33a',
  syscall: '#5b8bd6',
  'gc work': '#9a5fd0',
  'gc wait': '#c09be6',
  mutex: '#d0453e',
  sync: '#e07b54',
  chan: '#e59a9a',
  select: '#dbb8cc',
  net: '#7fb5cc',
  sleep: '#b9bec6',
  other: '#8d8d8d'
}

// draw draws bars, and vertical lines at the given times. The axis begins ten pixels from the left.
export function draw(pen: Pen, bars: Bar[], axis: Axis, lines: bigint[]) {
  const { c, height } = pen
  let row = 0
  const note = (kind: string, x: number, y: number, width: number, color: string) =>
    pen.note(kind, x, y, width, 0, { row, color })
  const put = (kind: string, color: string, x: number, y: number, width: number, height: number) =>
    note(kind, x, y, width, pen.fill(color, x, y, width, height))
  const sight = (t: bigint) => t >= axis.from && t <= axis.to
  c.translate(10, 0)
  for (const t of lines) put('line', 'line', Math.round(x(axis, t)), 0, 1, height)
  for (const f of axis.folds ?? []) {
    const at = Math.round(x(axis, f.from))
    c.setLineDash([2, 3])
    for (const beside of [at - 1.5, at + 1.5])
      pen.line(
        'tx2',
        [
          [beside, 0],
          [beside, height]
        ],
        1
      )
    c.setLineDash([])
    note('fold', at, 0, 3, pen.color('tx2'))
  }
  for (const b of bars) {
    const { flags, start_unix_nano, took_nano } = b.of
    row = b.of.row
    if (start_unix_nano === null) continue
    const start = start_unix_nano - b.by
    const role = roleOf(flags),
      at = x(axis, start)
    const ends = role !== roleSpan ? start : start + (took_nano ?? 0n)
    if (ends < axis.from || start > axis.to) {
      // an arrow points to the row
      const [tip, back] = ends < axis.from ? [-8, -3] : [axis.width + 14, axis.width + 9]
      note(
        'out',
        tip,
        b.y,
        5,
        pen.shape('tx2', [
          [back, b.y + 7],
          [tip, b.y + 11],
          [back, b.y + 15]
        ])
      )
      continue
    }
    if (role !== roleSpan) {
      note('mark', at, b.y, 8, mark(pen, at, b.y + 11, levelOf(flags), role === roleEvent))
      continue
    }
    const w = Math.max(2, x(axis, ends) - at)
    const solid = 's' + b.shade,
      tint = 't' + b.shade
    const y = b.y + barTop
    b.states.forEach((state, i) => {
      // adjacent parts with the same state become one rectangle
      if (i && b.states[i - 1] === state) return
      let n = i + 1
      while (b.states[n] === state) n++
      const from = at + (w * i) / b.states.length,
        wide = Math.max(1, (w * (n - i)) / b.states.length)
      if (from > axis.width + 10 || from + wide < -10) return
      // the execution trace does not cover parts of another state
      pen.fill(stateColors[state] ?? 'line', from, y + barHeight + 1, wide, 3)
      note('state', from, y + barHeight + 1, wide, state)
    })
    if (isOpen(flags)) {
      pen.within(at, y, w, barHeight, () => {
        pen.fill(tint, at, y, w, barHeight)
        for (let i = Math.max(at, -10) - barHeight; i < Math.min(at + w, axis.width + 10); i += 5)
          pen.line(
            solid,
            [
              [i, y + barHeight],
              [i + barHeight, y]
            ],
            1.5
          )
      })
      c.setLineDash([3, 2])
      pen.outline(solid, at, y, w, barHeight, 1)
      c.setLineDash([])
      note('ghost', at, y, w, pen.color(solid))
    } else {
      const whole = !hasSpans(flags)
      put('bar', whole ? solid : tint, at, y, w, barHeight)
      if (!whole && w > 2) {
        pen.outline(solid, at, y, w, barHeight, 1)
        for (const p of w > 8 ? b.parts : [])
          put('part', 's' + p.shade, at + w * p.from, y + 2, Math.max(1, w * (p.to - p.from) - 0.5), barHeight - 4)
      }
    }
    if (isError(flags) && ends <= axis.to) put('end', 'err', at + w - 3, y - 1, 3, barHeight + 2)
    for (const p of b.path) {
      if (p.to < axis.from || p.from > axis.to) continue
      const left = x(axis, p.from)
      put('path', 'tx', left, y + barHeight + 1, Math.max(2, x(axis, p.to) - left), 2)
    }
    for (const t of b.of.ticks) {
      const time = t.time_nano - b.by,
        tx = x(axis, time),
        color = levelColor(t.level)
      if (!sight(time)) continue
      if (t.level < 3) put('tick', color, tx - 0.5, b.y + 3, 1, 4)
      else
        note(
          'tick',
          tx,
          b.y + 3,
          1,
          pen.shape(color, [
            [tx - 3, b.y + 3],
            [tx + 3, b.y + 3],
            [tx, b.y + 7]
          ])
        )
    }
  }
}

const levelColor = (level: number) => (level >= 4 ? 'err' : level === 3 ? 'warn' : 'tx2')

// mark draws the sign of a log record, and returns its color. Its shape shows the level.
function mark(pen: Pen, x: number, y: number, level: number, event: boolean): string {
  const color = levelColor(level)
  if (event)
    return pen.shape(color, [
      [x, y - 5],
      [x + 5, y],
      [x, y + 5],
      [x - 5, y]
    ])
  if (level === 3)
    return pen.shape(color, [
      [x, y - 5],
      [x + 5, y + 4],
      [x - 5, y + 4]
    ])
  if (level >= 4) {
    const corners = [1, 3, 5, 7, 9, 11, 13, 15].map(i => (Math.PI * i) / 8)
    return pen.shape(
      color,
      corners.map(a => [x + 5 * Math.cos(a), y + 5 * Math.sin(a)])
    )
  }
  pen.c.beginPath()
  pen.c.arc(x, y, 3, 0, 7)
  const used = pen.use(color)
  pen.c.fill()
  return used
}
