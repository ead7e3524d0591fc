// The flame: spans merged by the names above them, the widest first, or spans over time.
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { set, spot, useAnswer, usePaint, useWidth } from './ask'
import { begin, color, frames } from './bars'
import { LanesView } from './lanes'
import * as page from './page'
import { Choose, none, wrong } from './parts'
import * as search from './search'
import * as selection from './selection'
import type { Flame, FlameNode } from './source'
import { count, duration, many, percent, plain, quoted, short } from './text'
import * as time from './time'
import * as trace from './trace'

const row = 20
const letter = 6.4 // pixels
const most = 1500 // the most levels that are drawn: the size of a canvas is limited

// A Box is a node that was drawn.
interface Box {
  node: number
  name: string
  x: number
  y: number
  width: number
  more: boolean
}

export function FlameView() {
  const q = search.problem.value ? '' : search.query.value
  const { value: f, failed } = useAnswer<Flame>(
    page.wide.value === 'lanes'
      ? ''
      : `${q} ${search.than.value} ${time.windowText.value} ${page.root.value} ${page.wide.value} ${trace.pace()}`,
    signal => trace.source.flame(search.part(), page.wide.value, signal)
  )
  return (
    <div class="tbv">
      <div class="tool">
        <Choose
          label="What is wide"
          now={page.wide.value}
          to={id => {
            page.wide.value = id
          }}
          of={[
            ['lanes', 'In time'],
            ['time', 'Self time'],
            ['up', 'Bottom-up'],
            ['count', 'Number']
          ]}
        />
        <span class="q">
          {page.root.value
            ? `${plain(selection.rootName.value)} and what is below`
            : q
              ? f && page.wide.value !== 'lanes'
                ? `${many(f.roots, 'hit')} and what is below`
                : 'The hits and what is below'
              : 'Whole file'}
          {f && f.left > 0 && `, ${count(f.left)} narrow ones left out`}
        </span>
        {page.root.value > 0 && (
          <button class="btn s" onClick={() => selection.subtree(0)}>
            Whole file
          </button>
        )}
        <span class="grow" />
        {page.wide.value !== 'lanes' && (q || search.otherSide()) && (
          <span class="q">
            <i class="fedge" /> takes longer than in {plain(search.otherSide()) || 'others of the name'}
          </span>
        )}
      </div>
      {page.wide.value === 'lanes' && <LanesView />}
      {wrong(failed)}
      {!failed && !f && page.wide.value !== 'lanes' && none('Merging…')}
      {f && page.wide.value !== 'lanes' && (f.nodes.length ? <Chart f={f} /> : none('No span is selected.'))}
    </div>
  )
}

function Chart({ f }: { f: Flame }) {
  const box = useRef<HTMLDivElement>(null)
  const width = useWidth(box),
    at = useSignal(0),
    zoom = useSignal(-1),
    over = useSignal(-1)
  useEffect(() => {
    at.value = 0
    zoom.value = over.value = -1
  }, [f])
  // The nodes below each node, the widest first.
  const kids: number[][] = f.nodes.map(() => []),
    top: number[] = []
  for (const [i, n] of f.nodes.entries()) (n.up < 0 ? top : kids[n.up]!).push(i)
  const wide = (a: number, b: number) => f.nodes[b]!.weight - f.nodes[a]!.weight || a - b
  for (const k of kids) k.sort(wide)
  top.sort(wide)
  const z = zoom.value < f.nodes.length ? zoom.value : -1
  const boxes: Box[] = []
  let deepest = 0
  const place = (i: number, x: number, scale: number, depth: number) => {
    const n = f.nodes[i]!,
      w = n.weight * scale
    if (w < 0.6 || depth > most) return
    deepest = Math.max(deepest, depth)
    boxes.push({ node: i, name: n.name, x, y: depth * row, width: w, more: n.more > 0.01 })
    for (const k of kids[i]!) {
      place(k, x, scale, depth + 1)
      x += f.nodes[k]!.weight * scale
    }
  }
  if (z >= 0) {
    const above: number[] = []
    for (let i = f.nodes[z]!.up; i >= 0; i = f.nodes[i]!.up) above.unshift(i)
    for (const [depth, i] of above.entries())
      boxes.push({ node: i, name: f.nodes[i]!.name, x: 0, y: depth * row, width, more: f.nodes[i]!.more > 0.01 })
    place(z, 0, width / f.nodes[z]!.weight, above.length)
  } else {
    let x = 0
    for (const i of top) {
      place(i, x, width, 0)
      x += f.nodes[i]!.weight * width
    }
  }
  const height = (deepest + 1) * row + 2
  const canvas = usePaint(canvas => {
    frames.flame = boxes
    paint(canvas, f, boxes, width, height, at.value, over.value)
  })
  const hit = (e: MouseEvent) => {
    const { x, y } = spot(canvas, e)
    return boxes.findLast(b => x >= b.x && x < b.x + Math.max(2, b.width) && y >= b.y && y < b.y + row)?.node ?? -1
  }
  const n: FlameNode | undefined = f.nodes[over.value >= 0 ? over.value : at.value]
  const move = (to: number | undefined) => {
    if (to !== undefined && to >= 0) {
      at.value = to
      over.value = -1
      page.spoken.value = says(f.nodes[to]!)
    }
  }
  const key = (e: KeyboardEvent) => {
    const now = at.value,
      siblings = f.nodes[now]!.up < 0 ? top : kids[f.nodes[now]!.up]!,
      place = siblings.indexOf(now)
    const act: Record<string, () => void> = {
      ArrowDown: () => move(kids[now]![0]),
      ArrowUp: () => move(f.nodes[now]!.up),
      ArrowLeft: () => move(siblings[place - 1]),
      ArrowRight: () => move(siblings[place + 1]),
      Enter: () => {
        zoom.value = zoom.value === now ? -1 : now
      },
      Escape: () => {
        zoom.value = -1
      }
    }
    const a = act[e.key]
    if (!a || (e.key === 'Escape' && zoom.value < 0)) return
    e.preventDefault()
    e.stopPropagation()
    a()
  }
  return (
    <>
      <div
        class="fl"
        ref={box}
        role="group"
        tabIndex={0}
        aria-label={`Flame of ${count(f.nodes.length)} names; arrows move, Enter widens. ${n ? says(n) : ''}`}
        onKeyDown={key}
        onPointerMove={e => {
          over.value = hit(e)
        }}
        onPointerLeave={set(over, -1)}
        onClick={e => {
          const i = hit(e)
          if (i >= 0) {
            at.value = i
            zoom.value = zoom.value === i ? -1 : i
          }
        }}>
        <canvas ref={canvas} aria-hidden />
      </div>
      {n && (
        <div class="fi">
          <b>{plain(n.name)}</b> <span class="q">{plain(n.service)}</span> {many(n.count, 'span')}
          {n.errors > 0 && <span class="err">, {many(n.errors, 'error')}</span>}, {duration(n.total_nano)} in all,{' '}
          {duration(n.self_nano)} of their own, {percent(n.weight, 1)}
          {n.more > 0.01 && (
            <span class="q">
              ; {percent(n.more, 1)} of the time more than in {plain(search.otherSide()) || 'others'}
            </span>
          )}{' '}
          <button class="btn s" onClick={() => selection.go(n.row)}>
            The longest
          </button>{' '}
          <button
            class="btn s"
            onClick={() => {
              page.view.value = 'tree'
              search.add(`name = ${quoted(n.name)}`, false, false)
            }}>
            Find them
          </button>
        </div>
      )}
    </>
  )
}

const says = (n: FlameNode) => `${plain(n.name)}, ${many(n.count, 'span')}, ${duration(n.self_nano)} of their own`

function paint(
  canvas: HTMLCanvasElement,
  f: Flame,
  boxes: Box[],
  width: number,
  height: number,
  at: number,
  over: number
) {
  const c = begin(canvas, width, height)
  const ink = color('tx'),
    err = color('err'),
    edge = color('hitln'),
    acc = color('acc')
  c.font = `12px ${color('ui')}`
  c.textBaseline = 'middle'
  for (const b of boxes) {
    const n = f.nodes[b.node]!,
      w = Math.max(1, b.width - 1)
    c.fillStyle = color('t' + trace.shade(n.service, n.name))
    c.fillRect(b.x, b.y, w, row - 1)
    if (n.errors) {
      c.fillStyle = err
      c.fillRect(b.x, b.y + row - 3, (w * n.errors) / n.count, 2)
    }
    if (b.more) {
      c.fillStyle = edge
      c.fillRect(b.x, b.y, Math.min(4, w), row - 1)
    }
    if (b.node === at || b.node === over) {
      c.strokeStyle = acc
      c.lineWidth = 1.5
      c.strokeRect(b.x + 0.75, b.y + 0.75, w - 1.5, row - 2.5)
    }
    const room = Math.floor((w - 12) / letter)
    if (room > 2) {
      c.fillStyle = ink
      const name = plain(n.name)
      c.fillText(short(name, room), b.x + 7, b.y + row / 2)
    }
  }
}
