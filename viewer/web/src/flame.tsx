// The flame: spans merged by the names above them, the widest first, or spans over time.
import { useSignal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { useAnswer } from './ask'
import { type Block, Blocks } from './blocks'
import { useChart } from './chart'
import { LanesView } from './lanes'
import * as page from './page'
import { Choose, none, wrong } from './parts'
import type { Pen } from './pen'
import * as search from './search'
import * as selection from './selection'
import type { Flame, FlameNode } from './source'
import { count, duration, many, percent, plain, quoted } from './text'
import * as trace from './trace'

const row = 20 // pixels
const most = 1500 // the maximum number of levels that are drawn, because the size of a canvas is limited

interface NodeBlock extends Block {
  more: boolean
}

export function FlameView() {
  const part = search.part(),
    { q } = part,
    inTime = page.wide.value === 'lanes'
  const { value: f, failed } = useAnswer('flame', !inTime && { ...part, by: page.wide.value })
  return (
    <div class="tbv">
      <div class="tool">
        <Choose
          label="Meaning of the width"
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
            ? `${plain(selection.rootName.value)} and the rows below`
            : q
              ? f && !inTime
                ? `${many(f.roots, 'hit')} and the rows below`
                : 'The hits and the rows below'
              : 'Whole file'}
          {f && f.left > 0 && `, ${count(f.left)} narrow ones left out`}
        </span>
        {page.root.value > 0 && (
          <button class="btn s" onClick={() => selection.subtree(0)}>
            Whole file
          </button>
        )}
        <span class="grow" />
        {!inTime && (q || search.otherSide()) && (
          <span class="q">
            <i class="fedge" /> takes longer than in {plain(search.otherSide()) || 'others of the name'}
          </span>
        )}
      </div>
      {inTime && <LanesView />}
      {wrong(failed)}
      {!failed && !f && !inTime && none('Merging…')}
      {f && !inTime && (f.nodes.length ? <Merged f={f} /> : none('No span is selected.'))}
    </div>
  )
}

function Merged({ f }: { f: Flame }) {
  const chart = useChart(),
    chosen = useSignal(0),
    zoom = useSignal(-1)
  const { width } = chart.size.value,
    at = Math.min(chosen.value, f.nodes.length - 1)
  useEffect(() => {
    chosen.value = 0
    zoom.value = -1
  }, [f])
  // The nodes below each node, the widest first.
  const kids: number[][] = f.nodes.map(() => []),
    top: number[] = []
  for (const [i, n] of f.nodes.entries()) (n.up < 0 ? top : kids[n.up]!).push(i)
  const wide = (a: number, b: number) => f.nodes[b]!.weight - f.nodes[a]!.weight || a - b
  for (const k of kids) k.sort(wide)
  top.sort(wide)
  const z = zoom.value < f.nodes.length ? zoom.value : -1
  const blocks: NodeBlock[] = []
  let deepest = 0
  const put = (i: number, x: number, width: number, depth: number) =>
    blocks.push({ i, name: f.nodes[i]!.name, x, y: depth * row, width, more: f.nodes[i]!.more > 0.01 })
  const place = (list: number[], x: number, scale: number, depth: number) => {
    for (const i of list) {
      const width = f.nodes[i]!.weight * scale
      if (width >= 0.6 && depth <= most) {
        deepest = Math.max(deepest, depth)
        put(i, x, width, depth)
        place(kids[i]!, x, scale, depth + 1)
      }
      x += width
    }
  }
  const above: number[] = []
  for (let i = f.nodes[z]?.up ?? -1; i >= 0; i = f.nodes[i]!.up) above.unshift(i)
  for (const [depth, i] of above.entries()) put(i, 0, width, depth)
  place(z < 0 ? top : [z], 0, width / (f.nodes[z]?.weight ?? 1), above.length)
  const widen = (i: number) => {
    zoom.value = zoom.value === i ? -1 : i
  }
  const siblings = kids[f.nodes[at]!.up] ?? top,
    nth = siblings.indexOf(at)
  return (
    <Blocks
      chart={chart}
      name="flame"
      answer={f}
      blocks={blocks}
      row={row}
      reach={0}
      height={(deepest + 1) * row + 2}
      paint={(pen, marked) => paint(pen, f, blocks, marked)}
      label={`Flame graph of ${count(f.nodes.length)} names; arrows move, Enter widens.`}
      says={i => says(f.nodes[i]!)}
      info={i => <Info n={f.nodes[i]!} />}
      at={at}
      choose={i => {
        chosen.value = i
      }}
      click={widen}
      keys={move => ({
        ArrowDown: () => move(kids[at]![0]),
        ArrowUp: () => move(f.nodes[at]!.up),
        ArrowLeft: () => move(siblings[nth - 1]),
        ArrowRight: () => move(siblings[nth + 1]),
        Enter: () => widen(at),
        Escape: () => {
          if (zoom.value < 0) return false
          zoom.value = -1
        }
      })}
    />
  )
}

const Info = ({ n }: { n: FlameNode }) => (
  <>
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
  </>
)

const says = (n: FlameNode) => `${plain(n.name)}, ${many(n.count, 'span')}, ${duration(n.self_nano)} of their own`

function paint(pen: Pen, f: Flame, blocks: NodeBlock[], marked: (i: number) => boolean) {
  for (const b of blocks) {
    const n = f.nodes[b.i]!,
      w = Math.max(1, b.width - 1)
    pen.fill('t' + trace.shade(n.service, n.name), b.x, b.y, w, row - 1)
    if (n.errors) pen.fill('err', b.x, b.y + row - 3, (w * n.errors) / n.count, 2)
    if (b.more) pen.fill('hitln', b.x, b.y, Math.min(4, w), row - 1)
    if (marked(b.i)) pen.outline('acc', b.x, b.y, w, row - 1, 1.5)
    pen.label(n.name, b.x + 7, b.y + row / 2, w - 12)
  }
}
