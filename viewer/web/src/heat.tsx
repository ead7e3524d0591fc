// The map of all requests by start and duration, and the properties that the requests in a box share.
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { drag, set, useLatest } from './ask'
import { type Cell, clamp, quantiles } from './bars'
import { Canvas, onKeys, useChart } from './chart'
import * as page from './page'
import { Bars, none } from './parts'
import type { Pen } from './pen'
import * as search from './search'
import * as selection from './selection'
import type { Heat } from './source'
import { count, day, duration, many, moment, percent, plain, zone } from './text'
import * as time from './time'
import * as trace from './trace'

const fewest = 12 // with fewer requests, no map is shown
// In pixels: the minimum size of a cell, and the space for the durations, for the counts per duration, and for
// requests that never ended.
const cell = 7,
  gutter = 50,
  edge = 44,
  top = 10
const cellHeight = () => clamp(cell, Math.floor((innerHeight - 580) / 40), 14) // leaves space for the lists below

// A Box has the cells with columns in [x, x2) and rows in [y, y2). y grows with the duration.
interface Box {
  x: number
  y: number
  x2: number
  y2: number
}

const isIn = (b: Box, { x, y }: { x: number; y: number }) => x >= b.x && x < b.x2 && y >= b.y && y < b.y2

function cellsOf(h: Heat): Cell[] {
  const rows = h.edges.length || 1,
    out: Cell[] = []
  for (let i = 0, at = 0; i < h.cells.length; i += 3) {
    at += h.cells[i]!
    out.push({ x: Math.floor(at / rows), y: at % rows, count: h.cells[i + 1]!, failed: h.cells[i + 2]! })
  }
  return out
}

// boxOf returns the cells that a box covers. The argument asked has the box as times and durations.
function boxOf(h: Heat, asked: string): Box | null {
  const [from, to, least, most] = asked.split(',') as [string, string, string, string]
  if (!h.requests || !parseInt(most, 10)) return null
  const x = (t: string) => Math.round(Number(((BigInt(t) - h.from_unix_nano!) * 100n) / h.column_nano) / 100),
    y = (d: string) => {
      const i = h.edges.findIndex(e => e >= Number(d))
      return i < 0 ? h.edges.length - 1 : i
    }
  return { x: x(from), x2: x(to), y: y(least), y2: y(most) }
}

export function HeatMap({ find, children }: { find: false | ((q: string) => void); children: ComponentChildren }) {
  const chart = useChart(),
    width = chart.size.value.width - edge - gutter,
    asked = useSignal('') // a box as times and durations, which does not change while the trace grows
  const n = clamp(1, Math.floor(width / cell), 999)
  const { value: h, failed } = useLatest('heat', width >= 1 && { window: time.windowText.value, n })
  useEffect(() => {
    asked.value = ''
  }, [time.windowText.value, trace.meta.value!.generation])
  const cells = h ? cellsOf(h) : [],
    columns = h?.columns ?? 1,
    rows = Math.max(1, (h?.edges.length ?? 1) - 1)
  const w = width / columns,
    high = cellHeight(),
    tall = rows * high
  const enough = h && h.requests >= fewest // a few requests are better examined one by one
  const b = h && boxOf(h, asked.value),
    within = (c: Cell) => !b || isIn(b, c)
  const at = (x: number) => h!.from_unix_nano! + h!.column_nano * BigInt(x)
  const draw = (b: Box) => {
    asked.value = [at(b.x), at(b.x2), h!.edges[b.y], h!.edges[b.y2]].join()
  }
  const all = (least: bigint, failed = '') => {
    const box = [at(0), at(columns), least, 0].join() + failed
    asked.value = asked.value === box ? '' : box
  }
  const place = (e: PointerEvent) => {
    const { x, y } = chart.spot(e)
    return { x: clamp(0, Math.floor(x / w), columns - 1), y: clamp(0, Math.floor((tall + top - y) / high), rows - 1) }
  }
  const moved = (b: Box, x: number, y: number): Box => {
    x = clamp(-b.x, x, columns - b.x2)
    y = clamp(-b.y, y, rows - b.y2)
    return { x: b.x + x, x2: b.x2 + x, y: b.y + y, y2: b.y2 + y }
  }
  const press = (e: PointerEvent) => {
    if (e.button || !h?.edges.length) return
    const { x, y } = place(e),
      before = asked.value
    const inside = b && isIn(b, { x, y }) && b
    const move = (e: PointerEvent) => {
      const to = place(e)
      draw(
        inside
          ? moved(inside, to.x - x, to.y - y)
          : { x: Math.min(x, to.x), x2: Math.max(x, to.x) + 1, y: Math.min(y, to.y), y2: Math.max(y, to.y) + 1 }
      )
    }
    drag(e, move, far => far || set(asked, '')(), set(asked, before))
  }
  const hover = (e: PointerEvent) => {
    const p = place(e),
      c = cells.find(c => c.x === p.x && c.y === p.y)
    chart.canvas.current!.title = c
      ? `${many(c.count, 'request')}${c.failed ? `, ${count(c.failed)} failed` : ''}, ${duration(BigInt(h!.edges[p.y]!))} to ${duration(BigInt(h!.edges[p.y + 1]!))}, at ${moment(at(p.x), 3)}`
      : ''
  }
  // arrow moves the box, or with Shift, its right or upper side. If there is no box, it draws one.
  const arrow = (x: number, y: number) => (e: KeyboardEvent) => {
    if (e.altKey || e.ctrlKey || e.metaKey || !enough || e.target !== chart.box.current) return false
    draw(
      !b
        ? { x: Math.floor(columns / 2), x2: Math.ceil(columns * 0.6), y: Math.floor(rows * 0.7), y2: rows }
        : e.shiftKey
          ? { ...b, x2: clamp(b.x + 1, b.x2 + x, columns), y2: clamp(b.y + 1, b.y2 + y, rows) }
          : moved(b, x, y)
    )
  }
  const keys = onKeys({
    ArrowLeft: arrow(-1, 0),
    ArrowRight: arrow(1, 0),
    ArrowUp: arrow(0, 1),
    ArrowDown: arrow(0, -1),
    Escape: () => {
      if (!asked.value) return false
      asked.value = ''
    }
  })
  const sums = (f: (c: Cell) => number) =>
    cells.reduce((a, c) => {
      a[c.x]! += f(c)
      return a
    }, Array<number>(columns).fill(0))
  const ended = h && h.open < h.requests,
    took = (d: bigint) => (ended ? duration(d) : '-'),
    slower = (d: bigint) => ended && (() => all(d))
  const seconds = h ? (Number(h.column_nano) * columns) / 1e9 : 1
  return (
    <div class="ov grid" onKeyDown={keys}>
      {h && (
        <div class="figs card edge flex wrap cut" role="group" aria-label="Figures of the requests">
          <Figure name="Requests" value={count(h.requests)} line={sums(c => c.count)}>
            {h.requests > 1 &&
              `${h.requests < 10 * seconds ? (h.requests / seconds).toPrecision(2) : count(Math.round(h.requests / seconds))} a second`}
          </Figure>
          {h.failed > 0 && (
            <Figure
              name="Failed"
              value={count(h.failed)}
              kind="err"
              hint="Choose the failed requests"
              act={() => all(0n, 'f')}
              line={sums(c => c.failed)}>
              {percent(h.failed, h.requests)}
            </Figure>
          )}
          {h.open > 0 && (
            <Figure
              name="Never ended"
              value={count(h.open)}
              kind="warn"
              hint="Find these requests"
              act={find && (() => find('{ span:open }'))}
            />
          )}
          {(
            [
              ['Median', 0.5, h.p50_nano, false],
              ['p95', 0.95, h.p95_nano, slower(h.p95_nano)],
              ['p99', 0.99, h.p99_nano, slower(h.p99_nano)]
            ] as const
          ).map(([name, q, d, act]) => (
            <Figure
              name={name}
              value={took(d)}
              hint="Choose the slower requests"
              act={act}
              line={quantiles(cells, columns, h.edges, q)}
            />
          ))}
          {h.longest && (
            <Figure
              name="Longest"
              value={duration(h.longest.duration_nano!)}
              hint="Open it"
              act={() => selection.goToRequest(h.longest!.row)}>
              {plain(h.longest.name)}
            </Figure>
          )}
        </div>
      )}
      <div
        class="hm rel"
        ref={chart.box}
        style={{ paddingLeft: gutter + 'px' }}
        role="group"
        tabIndex={enough ? 0 : undefined}
        aria-label={`Map of ${many(h?.requests ?? 0, 'request')} by start and duration. Draw a box, or press the arrow keys, to see what the requests in it share`}>
        {failed
          ? none(failed)
          : enough && (
              <Canvas
                of={chart}
                name="heat"
                width={width + edge}
                height={tall + top}
                paint={pen => paint(pen, h, cells, width, within, b)}
                onPointerDown={press}
                onPointerMove={hover}
              />
            )}
        {enough &&
          [0, 1, 2, 3, 4].map(i => (
            <span
              class="ax abs soft"
              aria-hidden
              style={{ width: gutter - 6 + 'px', top: top + tall * (1 - i / 4) - 6 + 'px' }}>
              {duration(BigInt(h.edges[Math.round((i / 4) * rows)]!))}
            </span>
          ))}
        {enough && (
          <p class="hl q rel" aria-hidden>
            <span>
              {day(h.from_unix_nano!)}, {moment(h.from_unix_nano!, 3)} {zone(h.from_unix_nano!)}
            </span>
            <span class="key">
              a cell has 1{' '}
              {[0, 33, 67, 100].map(n => (
                <i style={{ background: `color-mix(in srgb, var(--heat2) ${n}%, var(--heat))` }} />
              ))}{' '}
              to {count(cells.reduce((a, c) => Math.max(a, c.count), 0))}
              {h.failed > 0 && (
                <>
                  , failed <i style={{ background: 'var(--err)' }} />
                </>
              )}
            </span>
            <span style={{ right: edge + 'px' }}>{moment(at(columns), 3)}</span>
          </p>
        )}
      </div>
      <div style={h && !enough ? { gridColumn: '1 / -1' } : {}}>
        {asked.value ? (
          <Chosen
            asked={asked.value}
            n={b ? cells.reduce((a, c) => a + (within(c) ? c.count : 0), 0) : -1}
            find={find}
          />
        ) : (
          children
        )}
      </div>
    </div>
  )
}

// Figure is one of the numbers above the map. If act is set, the figure is a button.
const Figure = ({
  name,
  value,
  kind = '',
  hint,
  act,
  line,
  children
}: {
  name: string
  value: string
  kind?: string
  hint?: string
  act?: false | null | (() => void)
  line?: number[]
  children?: ComponentChildren
}) => (
  <button class={'fig grid rel ' + kind} disabled={!act} title={act ? hint : undefined} onClick={act || undefined}>
    <span>{name}</span>
    <b>{value}</b>
    <span class="el">{children}</span>
    {!!line?.length && <Bars of={line} aria-hidden />}
  </button>
)

// Chosen shows the properties that the chosen requests share.
function Chosen({ asked, n, find }: { asked: string; n: number; find: false | ((q: string) => void) }) {
  const answer = useLatest('choice', { window: time.windowText.value, box: asked }),
    { value: c, failed } = answer
  const sure = c && answer.asked!.box === asked,
    now = sure ? c.requests : n // until the answer arrives, use the number computed from the cells
  return (
    <section class="tl3 chosen" aria-live="polite">
      <h2>
        {now < 0 ? 'Requests' : many(now, 'request')} chosen
        {c && c.failed > 0 && <span class="err">, {count(c.failed)} failed</span>}
      </h2>
      {failed && none(failed)}
      {sure && now === 0 && none('No request began then and took so long.')}
      {c && now > 0 && (
        <ul>
          {c.groups.map(g => (
            <li>
              <p class="says">
                <b>{plain(g.name) || 'All of them'}</b> <span class="q">{plain(g.service)}</span> {plain(g.text)}{' '}
                <button class="lk" onClick={() => selection.goToRequest(g.longest.row)}>
                  Open the longest
                </button>
              </p>
              {g.evidence.map(e => (
                <p class="says">{plain(e.text)}</p>
              ))}
            </li>
          ))}
        </ul>
      )}
      {c && c.more > 0 && <p class="q">{many(c.more, 'other name')} left out</p>}
      {c && find && now > 0 && (
        <p>
          <button class="btn s" onClick={() => find(c.query)}>
            Show in the tree
          </button>{' '}
          <button
            class="btn s"
            onClick={() => {
              search.look(c.query)
              page.view.value = 'flame'
            }}>
            Merge as a flame
          </button>
        </p>
      )}
    </section>
  )
}

// paint draws the map.
function paint(pen: Pen, h: Heat, cells: Cell[], width: number, within: (c: Cell) => boolean, b: Box | null) {
  const rows = Math.max(1, h.edges.length - 1),
    high = cellHeight(),
    tall = rows * high,
    w = width / h.columns
  const { c } = pen
  const most = Math.log(cells.reduce((a, x) => Math.max(a, x.count), 1)) || 1,
    y = (row: number) => top + tall - row * high
  const sums: [number, number][] = Array.from({ length: rows + 1 }, () => [0, 0])
  pen.fill('sunk', 0, top, width, tall)
  for (const x of cells) {
    const level = Math.log(x.count) / most,
      inside = within(x),
      left = x.x * w
    sums[x.y]![0] += x.count
    if (inside) sums[x.y]![1] += x.count
    const fill = (name: string, alpha: number, from: number, height: number) => {
      c.globalAlpha = alpha * (inside ? 1 : 0.28)
      pen.fill(name, left, from, Math.max(1.5, w - 0.6), height)
    }
    if (x.y >= h.edges.length - 1) {
      fill('warn', 1, 0, top - 3)
      pen.note('open', left, 0, w, top - 3, x)
      continue
    }
    const from = y(x.y + 1)
    fill('heat', 1, from, high - 0.6)
    fill('heat2', level, from, high - 0.6)
    const above = 2 * x.failed > x.count ? 0 : high / 2
    if (x.failed) fill('err', 0.7 + 0.3 * level, from + above, high - above - 0.6)
    pen.note('cell', left, from, w, high, x)
  }
  c.globalAlpha = 1
  const ended = sums.slice(0, rows),
    widest = Math.sqrt(ended.reduce((a, x) => Math.max(a, x[0]), 1))
  for (const [i, x] of ended.entries())
    for (const [k, n] of x.entries())
      pen.fill(k ? (b ? 'acc' : 'ctl') : 'line2', width + 4, y(i + 1), (Math.sqrt(n) / widest) * (edge - 6), high - 0.6)
  c.font = '10px system-ui'
  let label = 1e9
  for (const [name, d] of [
    ['p50', h.p50_nano],
    ['p95', h.p95_nano],
    ['p99', h.p99_nano]
  ] as const) {
    const i = h.edges.findIndex(e => e > Number(d)),
      at = y(i - 0.5)
    if (i < 1) continue
    c.setLineDash([4, 4])
    pen.line(
      'tx2',
      [
        [0, at],
        [width, at]
      ],
      1
    )
    c.setLineDash([])
    if (label - y(i) > 10) {
      pen.use('bg')
      c.lineWidth = 4
      c.strokeText(name, width + 14, at + 3) // an outline, because the bars are under the text
      pen.use('tx2')
      c.fillText(name, width + 14, at + 3)
    }
    label = y(i)
  }
  if (b) {
    const box = [b.x * w, y(b.y2), (b.x2 - b.x) * w, (b.y2 - b.y) * high] as const
    pen.use('acc')
    c.lineWidth = 1.5
    c.strokeRect(...box)
    pen.note('box', ...box)
  }
}
