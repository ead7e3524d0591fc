// Spans over time: each service has lanes. The spans of a lane do not overlap, unless there are too many spans.
import { signal } from '@preact/signals'
import { useAnswer } from './ask'
import { type Axis, clamp } from './bars'
import { type Block, Blocks } from './blocks'
import { moves, Ruler, useChart, useWheel } from './chart'
import * as page from './page'
import { wrong } from './parts'
import type { Pen } from './pen'
import * as search from './search'
import * as selection from './selection'
import type { LaneRun, Lanes } from './source'
import { period } from './strip'
import { count, duration, many, moment, plain } from './text'
import * as time from './time'
import * as trace from './trace'

const row = 17,
  head = 20 // pixels

type Run = Block & LaneRun & { shade: number }

const at = signal(0) // the row of the chosen run

export function LanesView() {
  const chart = useChart(),
    { width } = chart.size.value
  const m = trace.meta.value!,
    all = (time.inside.value && period()) || { from: m.first_unix_nano, to: m.last_unix_nano },
    part = search.part(),
    shown = time.axis.value ?? (page.root.value ? null : all)
  const { value: l, failed } = useAnswer(
    'lanes',
    width >= 1 && { ...part, ...shown, n: clamp(1, Math.round(width), 4000) }
  )
  const range = shown ?? (l ? { from: l.from_unix_nano, to: l.to_unix_nano } : { from: 0n, to: 1n })
  const axis: Axis = { ...range, width: Math.max(1, width) }
  chart.axis = axis
  // The vertical positions of the lanes, and of the first lane of each service.
  const lanes: { service: string; y: number }[] = [],
    heads: typeof lanes = []
  let y = 0
  for (const { service, levels } of l?.lanes ?? []) {
    heads.push({ service, y })
    y += head
    for (let i = 0; i < levels; i++, y += row) lanes.push({ service, y })
  }
  const runs = l ? runsOf(l, axis, lanes) : []
  const chosen = runs.find(b => b.row === at.value)

  const fit = (i: number) => {
    const { at, long } = l!.runs[i]!
    time.axis.value = time.around(l!.from_unix_nano + BigInt(at), BigInt(Math.max(1000, long)))
  }
  moves.zoom = (by, part = 0.5) => {
    const next = time.zoomed(range, by, part)
    time.axis.value = next.from <= all.from && next.to >= all.to ? null : next
  }
  moves.pan = by => {
    time.axis.value = time.panned(range, by)
  }
  moves.fit = () => {
    if (chosen) fit(chosen.i)
  }
  useWheel(chart)

  const keys = (move: (to: number | undefined) => void) => {
    const now = chosen ?? runs[0]
    if (!now) return {}
    const to = (candidates: Run[]) => {
      const b = candidates.sort((a, b) => Math.abs(a.x - now.x) - Math.abs(b.x - now.x))[0]
      if (!b) return
      move(b.i)
      const el = chart.box.current!
      el.scrollTop = Math.max(0, Math.min(el.scrollTop, b.y - head), b.y + row * 2 - el.clientHeight)
    }
    const beside = (by: number) => {
      const next = Math.min(...runs.map(b => by * (b.y - now.y)).filter(d => d > 0))
      to(runs.filter(b => b.y === now.y + by * next))
    }
    return {
      ArrowRight: () => to(runs.filter(b => b.y === now.y && b.x > now.x)),
      ArrowLeft: () => to(runs.filter(b => b.y === now.y && b.x < now.x)),
      ArrowDown: () => beside(1),
      ArrowUp: () => beside(-1),
      Enter: () => {
        if (chosen) selection.go(chosen.row)
        to([now])
      }
    }
  }
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
      <div class="ruler crosshair rel cut flr note under" aria-hidden>
        <Ruler axis={axis} left={2} />
      </div>
      <Blocks
        chart={chart}
        name="lanes"
        answer={l}
        blocks={runs}
        row={row}
        reach={1}
        height={Math.min(y + 2, 16_000)}
        paint={(pen, marked) => paint(pen, runs, heads, marked)}
        label="Spans in time; arrows move, Enter shows one in the tree."
        says={i => says(l!.runs[i]!)}
        info={i => <Info run={l!.runs[i]!} from={l!.from_unix_nano} service={lanes[l!.runs[i]!.lane]!.service} />}
        at={chosen?.i ?? -1}
        choose={i => {
          at.value = l!.runs[i]!.row
        }}
        open={fit}
        keys={keys}
        brush
      />
      {wrong(failed)}
    </>
  )
}

const Info = ({ run, from, service }: { run: LaneRun; from: bigint; service: string }) => (
  <>
    <b>{plain(run.name)}</b> <span class="q">{plain(service)}</span>{' '}
    {run.count > 1 ? (
      `and ${many(run.count - 1, 'other span')} within ${duration(BigInt(run.long))}`
    ) : (
      <>
        {run.open && 'never ended, open for '}
        {duration(BigInt(run.long))} from {moment(from + BigInt(run.at), 6)}
      </>
    )}
    {run.errors > 0 && <span class="err">, {many(run.errors, 'error')}</span>}{' '}
    <button class="btn s" onClick={() => selection.go(run.row)}>
      Show in the tree
    </button>{' '}
    <button class="btn s" onClick={() => selection.subtree(run.row)}>
      This and the rows below
    </button>
  </>
)

const says = ({ name, count, long, errors }: LaneRun) =>
  `${plain(name)}, ${count > 1 ? many(count, 'span') : duration(BigInt(long))}${errors ? ', error' : ''}`

// runsOf returns the visible runs.
function runsOf(l: Lanes, axis: Axis, lanes: { service: string; y: number }[]): Run[] {
  // Times are numbers relative to the first time, because pixels do not need exact nanoseconds.
  const shift = Number(l.from_unix_nano - axis.from),
    scale = axis.width / Math.max(1, Number(axis.to - axis.from)),
    runs: Run[] = []
  for (const [i, run] of l.runs.entries()) {
    const from = Math.max(-2, (shift + run.at) * scale),
      to = Math.min(axis.width + 2, (shift + run.at + run.long) * scale),
      { service, y } = lanes[run.lane]!
    if (to < 0 || from > axis.width) continue
    runs.push({ ...run, i, shade: trace.shade(service, run.name), x: from, y, width: Math.max(1, to - from) })
  }
  return runs
}

function paint(pen: Pen, runs: Run[], heads: { service: string; y: number }[], marked: (i: number) => boolean) {
  for (const h of heads) {
    pen.fill('line', 0, h.y, pen.width, 1)
    pen.write('tx2', plain(h.service) || '(no service)', 6, h.y + head / 2)
  }
  // Wide runs are tinted and have their color where they begin. Narrow runs are drawn over them. All runs are drawn
  // in the order of their colors, because setting another color takes time.
  const sorted = runs.toSorted((a, b) => a.shade - b.shade),
    wide = sorted.filter(b => b.width >= 4)
  for (const b of wide) pen.fill('t' + b.shade, b.x, b.y, b.width - 0.5, row - 2)
  for (const b of sorted)
    if (b.width < 4) pen.fill('s' + b.shade, b.x, b.y, b.width > 2 ? b.width - 0.5 : b.width, row - 2)
  for (const b of wide) pen.fill('s' + b.shade, b.x, b.y, 2, row - 2)
  for (const b of runs) {
    if (b.errors) pen.fill('err', b.x, b.y + row - 4, Math.max(1, b.width - 0.5), 2)
    if (marked(b.i)) pen.outline('acc', b.x, b.y, b.width, row - 2, 2)
    const text = b.name + (b.count > 1 ? ` +${count(b.count - 1)}` : '')
    if (b.width >= 30) pen.label(text, Math.max(0, b.x) + 4, b.y + row / 2 - 1, b.width - 8)
  }
}
