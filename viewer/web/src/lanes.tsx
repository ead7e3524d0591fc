// Spans over time: each service has lanes. The spans of a lane do not overlap, unless there are too many spans.
import { signal, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { pull, set, spot, useAnswer, usePaint, useWidth } from './ask'
import { type Axis, begin, clamp, color, frames, steps, timeAt, x, zoomOf } from './bars'
import * as page from './page'
import { wrong } from './parts'
import * as search from './search'
import * as selection from './selection'
import type { Lanes } from './source'
import { period } from './strip'
import { count, duration, many, moment, plain, short } from './text'
import * as time from './time'
import * as trace from './trace'
import { list } from './tree'

const row = 17,
  head = 20,
  letter = 6.4 // pixels

// A Box is a run of spans that was drawn.
interface Box {
  run: number
  row: number
  name: string
  count: number
  x: number
  y: number
  width: number
}
let drawn: Box[] = []

const at = signal(0) // the row of the chosen run

export function LanesView() {
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box),
    over = useSignal(-1),
    brushed = useSignal<[number, number] | null>(null)
  const m = trace.meta.value!,
    all = (time.inside.value && period()) || { from: m.first_unix_nano, to: m.last_unix_nano },
    part = search.part(),
    shown = time.axis.value ?? (page.root.value ? null : all)
  const { value: l, failed } = useAnswer<Lanes>(
    width < 1 ? '' : `${JSON.stringify(part)} ${shown?.from} ${shown?.to} ${Math.round(width)} ${trace.pace()}`,
    signal => trace.source.lanes(part, shown, clamp(1, Math.round(width), 4000), signal)
  )
  const range = shown ?? (l ? { from: l.from_unix_nano, to: l.to_unix_nano } : { from: 0n, to: 1n })
  const axis: Axis = { ...range, width: Math.max(1, width) }
  // The vertical positions of the lanes, and of the first lane of each service.
  const tops: number[] = [],
    heads: { service: string; y: number }[] = []
  let y = 0
  for (const of of l?.lanes ?? []) {
    heads.push({ service: of.service, y })
    y += head
    for (let i = 0; i < of.levels; i++) {
      tops.push(y)
      y += row
    }
  }
  const services = (l?.lanes ?? []).flatMap(of => Array<string>(of.levels).fill(of.service))
  const canvas = usePaint(canvas => {
    if (l) paint(canvas, l, axis, tops, services, heads, y + 2, over.value)
  })

  list.zoom = (by, part = 0.5) => {
    const next = time.zoomed(range, by, part)
    time.axis.value = next.from <= all.from && next.to >= all.to ? null : next
  }
  const fit = (run: number) => {
    time.axis.value = time.around(l!.from_unix_nano + BigInt(l!.at[run]!), BigInt(Math.max(1000, l!.long[run]!)))
  }
  const chosen = drawn.find(b => b.row === at.value)?.run ?? -1
  list.pan = by => {
    time.axis.value = time.panned(range, by)
  }
  list.fit = () => {
    if (l && chosen >= 0) fit(chosen)
  }
  useEffect(() => {
    const wheel = (e: WheelEvent) => {
      if (!e.ctrlKey && !e.metaKey && !e.shiftKey) return
      e.preventDefault()
      const at = spot(canvas, e)
      if (e.shiftKey) list.pan!((e.deltaX || e.deltaY) / 1000)
      else list.zoom!(zoomOf(e), clamp(0, at.x / at.width, 1))
    }
    box.current!.addEventListener('wheel', wheel, { passive: false })
    return () => box.current?.removeEventListener('wheel', wheel)
  }, [])

  const hit = (e: MouseEvent) => {
    const { x, y } = spot(canvas, e)
    return drawn.findLast(b => x >= b.x - 1 && x < b.x + b.width + 1 && y >= b.y && y < b.y + row)?.run ?? -1
  }
  // A drag over the lanes chooses a part of the time. A click chooses a run.
  const begin = (e: PointerEvent) => {
    if (e.button || e.pointerType !== 'mouse') return
    const a = spot(canvas, e).x
    pull<[number, number]>(
      e,
      brushed,
      e => {
        const b = clamp(0, spot(canvas, e).x, axis.width)
        return [Math.min(a, b), Math.max(a, b)]
      },
      (b, e) => {
        if (b) time.choose({ from: timeAt(axis, b[0] / axis.width), to: timeAt(axis, b[1] / axis.width) })
        else pick(hit(e))
      }
    )
  }
  const pick = (run: number) => {
    if (run >= 0 && l) {
      at.value = l.row[run]!
      over.value = -1
      page.spoken.value = says(l, run)
    }
  }
  const key = (e: KeyboardEvent) => {
    if (!l?.row.length) return
    const now = drawn.find(b => b.run === chosen) ?? drawn[0]!
    const near = (list: Box[]) => list.sort((a, b) => Math.abs(a.x - now.x) - Math.abs(b.x - now.x))[0]
    const beside = (by: number) => {
      const y = [...new Set(drawn.map(b => b.y))]
        .filter(y => (by > 0 ? y > now.y : y < now.y))
        .sort((a, b) => by * (a - b))[0]
      return near(drawn.filter(b => b.y === y))
    }
    const to: Record<string, () => Box | undefined> = {
      ArrowRight: () => near(drawn.filter(b => b.y === now.y && b.x > now.x)),
      ArrowLeft: () => near(drawn.filter(b => b.y === now.y && b.x < now.x)),
      ArrowDown: () => beside(1),
      ArrowUp: () => beside(-1),
      Enter: () => {
        if (chosen >= 0) selection.go(l.row[chosen]!)
        return now
      }
    }
    if (!to[e.key]) return
    e.preventDefault()
    e.stopPropagation()
    const b = to[e.key]!()
    if (b) {
      pick(b.run)
      const el = box.current!
      el.scrollTop = Math.max(0, Math.min(el.scrollTop, b.y - head), b.y + row * 2 - el.clientHeight)
    }
  }
  const run = over.value >= 0 && l && over.value < l.row.length ? over.value : chosen
  const on = l && run >= 0 && run < l.row.length ? l : null
  return (
    <>
      {l && (
        <p class="q fn">
          {l.spans ? (
            <>
              {many(l.spans, 'span')}
              {!l.packed && ', too many for lanes of their own: a lane is a level, and spans in it may overlap'}
            </>
          ) : (
            'No span is in this time.'
          )}
        </p>
      )}
      <div class="ruler flr" aria-hidden>
        {steps(axis)
          .filter((t, i) => (!i || x(axis, t) > 105) && x(axis, t) < axis.width - 55)
          .map((t, i) => (
            <span style={{ left: x(axis, t) + 2 + 'px' }}>
              {i ? '+' + duration(t - axis.from) : moment(t, axis.to - axis.from < 10_000_000n ? 6 : 3)}
            </span>
          ))}
      </div>
      <div
        class="fl"
        ref={box}
        role="group"
        tabIndex={0}
        aria-label={`Spans in time; arrows move, Enter shows one in the tree. ${on ? says(on, run) : ''}`}
        onKeyDown={key}
        onPointerDown={begin}
        onPointerMove={e => {
          if (!brushed.value) over.value = hit(e)
        }}
        onPointerLeave={set(over, -1)}
        onDblClick={e => {
          const i = hit(e)
          if (i >= 0) fit(i)
        }}>
        <canvas ref={canvas} aria-hidden />
        {brushed.value && (
          <div
            class="brush"
            style={{ left: brushed.value[0] + 'px', width: brushed.value[1] - brushed.value[0] + 'px' }}
          />
        )}
      </div>
      {wrong(failed)}
      {on && (
        <div class="fi">
          <b>{plain(on.names[on.name[run]!]!)}</b> <span class="q">{plain(serviceOf(on, on.lane[run]!))}</span>{' '}
          {on.count[run]! > 1 ? (
            `and ${many(on.count[run]! - 1, 'other span')} within ${duration(BigInt(on.long[run]!))}`
          ) : (
            <>
              {on.open[run] ? 'never ended, open for ' : ''}
              {duration(BigInt(on.long[run]!))} from {moment(on.from_unix_nano + BigInt(on.at[run]!), 6)}
            </>
          )}
          {on.errors[run]! > 0 && <span class="err">, {many(on.errors[run]!, 'error')}</span>}{' '}
          <button class="btn s" onClick={() => selection.go(on.row[run]!)}>
            Show in the tree
          </button>{' '}
          <button class="btn s" onClick={() => selection.subtree(on.row[run]!)}>
            This and what is below
          </button>
        </div>
      )}
    </>
  )
}

const serviceOf = (l: Lanes, lane: number) => {
  for (const of of l.lanes) {
    if (lane < of.levels) return of.service
    lane -= of.levels
  }
  return ''
}
const says = (l: Lanes, i: number) =>
  `${plain(l.names[l.name[i]!]!)}, ${l.count[i]! > 1 ? many(l.count[i]!, 'span') : duration(BigInt(l.long[i]!))}${l.errors[i] ? ', error' : ''}`

function paint(
  canvas: HTMLCanvasElement,
  l: Lanes,
  axis: Axis,
  tops: number[],
  services: string[],
  heads: { service: string; y: number }[],
  height: number,
  over: number
) {
  const most = Math.min(height, 16_000)
  const c = begin(canvas, axis.width, most)
  const ink = color('tx'),
    dim = color('tx2'),
    err = color('err'),
    line = color('line'),
    acc = color('acc')
  c.font = `12px ${color('ui')}`
  c.textBaseline = 'middle'
  for (const h of heads) {
    c.fillStyle = line
    c.fillRect(0, h.y, axis.width, 1)
    c.fillStyle = dim
    c.fillText(plain(h.service) || '(no service)', 6, h.y + head / 2)
  }
  // Times are numbers relative to the first time: pixels do not need exact nanoseconds.
  const shift = Number(l.from_unix_nano - axis.from),
    scale = axis.width / Math.max(1, Number(axis.to - axis.from))
  const boxes: Box[] = [],
    narrow: Box[][] = Array.from({ length: 18 }, () => []),
    wide: Box[][] = Array.from({ length: 18 }, () => []) // by color, so that each color is set once
  for (let i = 0; i < l.row.length; i++) {
    const from = Math.max(-2, (shift + l.at[i]!) * scale),
      to = Math.min(axis.width + 2, (shift + l.at[i]! + l.long[i]!) * scale)
    if (to < 0 || from > axis.width) continue
    const b = {
      run: i,
      row: l.row[i]!,
      name: l.names[l.name[i]!]!,
      count: l.count[i]!,
      x: from,
      y: tops[l.lane[i]!]!,
      width: Math.max(1, to - from)
    }
    boxes.push(b)
    ;(b.width < 4 ? narrow : wide)[trace.shade(services[l.lane[i]!], b.name)]!.push(b)
  }
  for (const [kind, lists] of [
    ['t', wide],
    ['s', narrow]
  ] as const)
    lists.forEach((list, k) => {
      if (!list.length) return
      c.fillStyle = color(kind + k)
      for (const b of list) c.fillRect(b.x, b.y, b.width > 2 ? b.width - 0.5 : b.width, row - 2)
    })
  wide.forEach((list, k) => {
    // the beginning of each span
    c.fillStyle = color('s' + k)
    for (const b of list) c.fillRect(b.x, b.y, 2, row - 2)
  })
  c.fillStyle = err
  for (const b of boxes) if (l.errors[b.run]) c.fillRect(b.x, b.y + row - 4, Math.max(1, b.width - 0.5), 2)
  for (const b of boxes) {
    if (b.run === over || b.row === at.value) {
      c.strokeStyle = acc
      c.lineWidth = 2
      c.strokeRect(b.x + 1, b.y + 1, Math.max(1, b.width - 2), row - 4)
    }
    if (b.width < 30) continue
    const room = Math.floor((b.width - 8) / letter),
      name = plain(b.name) + (b.count > 1 ? ` +${count(b.count - 1)}` : '')
    if (room < 3) continue
    c.fillStyle = ink
    c.fillText(short(name, room), Math.max(0, b.x) + 4, b.y + row / 2 - 1)
  }
  drawn = frames.lanes = boxes
}
