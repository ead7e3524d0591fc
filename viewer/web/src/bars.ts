// The bars of the visible rows, drawn onto one canvas.
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

// An Axis shows the time between two times. The folds are periods without a width on the axis. They are in order,
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

// frames has the shapes that each canvas has drawn last, for tests of the page.
export const frames: Record<string, object[]> = { tree: [], strip: [], flame: [], lanes: [], lane: [], heat: [] }

// A Drawn is a shape that was drawn.
export interface Drawn {
  kind: 'state' | 'bar' | 'part' | 'ghost' | 'tick' | 'mark' | 'end' | 'line' | 'fold' | 'path' | 'out'
  row: number
  x: number
  y: number
  width: number
  color: string
}

// foldsIn returns the parts of periods that lie between two times.
export const foldsIn = (all: Period[], from: bigint, to: bigint): Period[] =>
  all.map(f => ({ from: f.from > from ? f.from : from, to: f.to < to ? f.to : to })).filter(f => f.to > f.from)

// spanOf returns how much time an axis shows, without the folds.
const spanOf = (a: Axis) => {
  const n = (a.folds ?? []).reduce((n, f) => n - (f.to - f.from), a.to - a.from)
  return n > 0n ? n : 1n
}

// x returns the position of a time on the axis, in pixels. Positions far outside the axis are moved close to its
// ends.
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

// quantiles returns the q-quantile of the durations for each column. Adjacent columns with fewer than 12 requests
// get a common value. edges has the smallest duration of each row, followed by the end of the last row.
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

// steps returns the times at which an axis has lines. They are round, and as many as have room.
export function steps(a: Axis, room = 70): bigint[] {
  const span = a.to - a.from
  if (span <= 0n || a.width < room) return []
  if (a.folds?.length) return foldedSteps(a, room)
  const most = BigInt(Math.max(1, Math.floor(a.width / room))),
    want = (span + most - 1n) / most
  let step = whole.find(s => want > 30_000_000_000n && s >= want) ?? (want > 30_000_000_000n ? 86_400_000_000_000n : 1n)
  while (step < want) {
    const next = [2n, 5n, 10n].map(f => step * f).find(s => s >= want)
    if (step >= want) break
    if (next !== undefined) {
      step = next
      break
    }
    step *= 10n
  }
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

let dark: MediaQueryList | undefined,
  scheme = '',
  colors = new Map<string, string>()

// color returns the color of a name for a canvas. Names t0 and so on are the tints of s0 and so on. Each color is
// computed once per theme, because the computation takes a tenth of a frame.
export function color(name: string): string {
  dark ??= matchMedia('(prefers-color-scheme: dark)')
  const root = document.documentElement,
    now = root.style.colorScheme + dark.matches
  if (now !== scheme) {
    scheme = now
    colors = new Map()
  }
  let c = colors.get(name)
  if (c === undefined) {
    // canvases accept only computed colors; forced colors have too few to tell shapes apart
    root.style.forcedColorAdjust = 'none'
    root.style.color = /^t\d/.test(name)
      ? `color-mix(in srgb, var(--s${name.slice(1)}) 32%, var(--bg))`
      : `var(--${name})`
    c = getComputedStyle(root).color
    colors.set(name, c)
    root.style.color = root.style.forcedColorAdjust = ''
  }
  return c
}

// begin sets the size of a canvas in CSS pixels and clears it. It returns the context to draw on.
export function begin(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = devicePixelRatio || 1,
    c = canvas.getContext('2d')!
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio)
    canvas.height = Math.round(height * ratio)
    canvas.style.width = width + 'px'
    canvas.style.height = height + 'px'
  }
  c.setTransform(ratio, 0, 0, ratio, 0, 0)
  c.clearRect(0, 0, width, height)
  return c
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

// draw draws bars, and vertical lines at the given times.
export function draw(canvas: HTMLCanvasElement, bars: Bar[], axis: Axis, lines: bigint[], height: number): Drawn[] {
  const c = begin(canvas, axis.width + 26, height)
  const error = color('err'),
    warn = color('warn'),
    text = color('tx2'),
    line = color('line'),
    ink = color('tx')
  const drawn: Drawn[] = []
  const note = (kind: Drawn['kind'], row: number, x: number, y: number, width: number, color: string) =>
    drawn.push({ kind, row, x, y, width, color })
  c.translate(10, 0)
  c.save()
  c.beginPath()
  c.rect(-10, 0, axis.width + 26, height)
  c.clip()
  c.fillStyle = line
  for (const t of lines) {
    const at = Math.round(x(axis, t))
    c.fillRect(at, 0, 1, height)
    note('line', 0, at, 0, 1, line)
  }
  for (const f of axis.folds ?? []) {
    const at = Math.round(x(axis, f.from))
    c.strokeStyle = text
    c.lineWidth = 1
    c.setLineDash([2, 3])
    for (const beside of [-1.5, 1.5]) {
      c.beginPath()
      c.moveTo(at + beside, 0)
      c.lineTo(at + beside, height)
      c.stroke()
    }
    c.setLineDash([])
    note('fold', 0, at, 0, 3, text)
  }
  for (const b of bars) {
    const { row, flags } = b.of
    if (b.of.start_unix_nano === null) continue
    const start = b.of.start_unix_nano - b.by
    const role = roleOf(flags),
      at = x(axis, start),
      open = isOpen(flags)
    const ends = role !== roleSpan ? start : start + (b.of.took_nano ?? 0n)
    if (ends < axis.from || start > axis.to) {
      // an arrow points to the row
      const [tip, back] = ends < axis.from ? [-8, -3] : [axis.width + 14, axis.width + 9]
      c.fillStyle = text
      c.beginPath()
      c.moveTo(back, b.y + 7)
      c.lineTo(tip, b.y + 11)
      c.lineTo(back, b.y + 15)
      c.fill()
      note('out', row, tip, b.y, 5, text)
      continue
    }
    if (role !== roleSpan) {
      const level = levelOf(flags)
      c.fillStyle = level >= 4 ? error : level === 3 ? warn : text
      mark(c, at, b.y + 11, level, role === roleEvent)
      note('mark', row, at, b.y, 8, c.fillStyle)
      continue
    }
    const end = x(axis, ends)
    const w = Math.max(2, end - at)
    const solid = color('s' + b.shade),
      tint = color('t' + b.shade)
    const y = b.y + barTop
    b.states.forEach((state, i) => {
      // adjacent parts with the same state become one rectangle
      if (i && b.states[i - 1] === state) return
      let n = i + 1
      while (b.states[n] === state) n++
      const from = at + (w * i) / b.states.length,
        wide = Math.max(1, (w * (n - i)) / b.states.length)
      if (from > axis.width + 10 || from + wide < -10) return
      c.fillStyle = stateColors[state] ?? line // the execution trace does not cover this part
      c.fillRect(from, y + barHeight + 1, wide, 3)
      note('state', row, from, y + barHeight + 1, wide, state)
    })
    if (open) {
      c.save()
      c.beginPath()
      c.rect(at, y, w, barHeight)
      c.clip()
      c.fillStyle = tint
      c.fillRect(at, y, w, barHeight)
      c.strokeStyle = solid
      c.lineWidth = 1.5
      c.beginPath()
      for (let i = Math.max(at, -10) - barHeight; i < Math.min(at + w, axis.width + 10); i += 5) {
        c.moveTo(i, y + barHeight)
        c.lineTo(i + barHeight, y)
      }
      c.stroke()
      c.restore()
      c.strokeStyle = solid
      c.setLineDash([3, 2])
      c.strokeRect(at + 0.5, y + 0.5, w - 1, barHeight - 1)
      c.setLineDash([])
      note('ghost', row, at, y, w, solid)
    } else {
      const whole = !hasSpans(flags)
      c.fillStyle = whole ? solid : tint
      c.fillRect(at, y, w, barHeight)
      if (!whole && w > 2) {
        c.strokeStyle = solid
        c.lineWidth = 1
        c.strokeRect(at + 0.5, y + 0.5, w - 1, barHeight - 1)
        for (const p of w > 8 ? b.parts : []) {
          c.fillStyle = color(`s${p.shade}`)
          c.fillRect(at + w * p.from, y + 2, Math.max(1, w * (p.to - p.from) - 0.5), barHeight - 4)
          note('part', row, at + w * p.from, y + 2, w * (p.to - p.from), c.fillStyle)
        }
      }
      note('bar', row, at, y, w, whole ? solid : tint)
    }
    if (isError(flags) && ends <= axis.to) {
      c.fillStyle = error
      c.fillRect(at + w - 3, y - 1, 3, barHeight + 2)
      note('end', row, at + w - 3, y, 3, error)
    }
    for (const p of b.path) {
      if (p.to < axis.from || p.from > axis.to) continue
      const left = x(axis, p.from),
        long = Math.max(2, x(axis, p.to) - left)
      c.fillStyle = ink
      c.fillRect(left, y + barHeight + 1, long, 2)
      note('path', row, left, y + barHeight + 1, long, ink)
    }
    for (const t of b.of.ticks) {
      const time = t.time_nano - b.by
      if (time < axis.from || time > axis.to) continue
      const tx = x(axis, time)
      c.fillStyle = t.level >= 4 ? error : t.level === 3 ? warn : text
      if (t.level >= 3) {
        c.beginPath()
        c.moveTo(tx - 3, b.y + 3)
        c.lineTo(tx + 3, b.y + 3)
        c.lineTo(tx, b.y + 7)
        c.fill()
      } else c.fillRect(tx - 0.5, b.y + 3, 1, 4)
      note('tick', row, tx, b.y + 3, 1, c.fillStyle)
    }
  }
  c.restore()
  return drawn
}

// mark draws the sign of a log record. Its shape shows the level.
function mark(c: CanvasRenderingContext2D, x: number, y: number, level: number, event: boolean) {
  c.beginPath()
  if (event) {
    c.moveTo(x, y - 5)
    c.lineTo(x + 5, y)
    c.lineTo(x, y + 5)
    c.lineTo(x - 5, y)
  } else if (level >= 4)
    for (let i = 0; i < 8; i++)
      c.lineTo(x + 5 * Math.cos(Math.PI * (i / 4 + 0.125)), y + 5 * Math.sin(Math.PI * (i / 4 + 0.125)))
  else if (level === 3) {
    c.moveTo(x, y - 5)
    c.lineTo(x + 5, y + 4)
    c.lineTo(x - 5, y + 4)
  } else c.arc(x, y, 3, 0, 7)
  c.fill()
}
