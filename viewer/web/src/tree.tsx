// The tree with its time axis.
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks'
import { drag, set, spot, useAnswer } from './ask'
import { type Bar, clamp, draw, steps, x } from './bars'
import { Canvas, Over, Ruler, useChart, useWheel } from './chart'
import * as follow from './follow'
import { indents } from './indent'
import * as page from './page'
import { durationWidth, Row, rowHeight } from './row'
import { RuntimeLane } from './runtime'
import { scroll, useTouch } from './scroll'
import * as search from './search'
import * as selection from './selection'
import { isExpanded, isParent, roleOf, roleSpan, type TreeRow } from './source'
import { count } from './text'
import * as time from './time'
import * as trace from './trace'
import { useTreeAxis } from './treeaxis'

export function Tree() {
  const m = trace.meta.value!,
    chart = useChart(10, 800, 400),
    size = chart.size.value,
    row = rowHeight(),
    narrow = row > 22
  useMemo(() => scroll.begin(), [])
  const { rows, sticky } = scroll.look(size.height, row, narrow ? 1 : 6),
    { shown: p, top } = scroll
  useLayoutEffect(() => scroll.settle())
  const nameWidth = Number(page.nameShare.value) || (m.spans ? 0.42 : 0.7)
  const left = narrow
    ? 4
    : !m.timed
      ? size.width - 26
      : clamp(200, size.width * nameWidth, size.width - 220) + durationWidth()
  const axisWidth = Math.max(50, size.width - left - 26)
  const axisLeft = left + chart.left
  const { axis, lengths, origin } = useTreeAxis(chart, p, axisWidth)
  useLayoutEffect(() => {
    time.byLength.value = lengths
    time.outside.value = p.outside
  })
  const indent = indents(
    [...sticky, ...rows.flatMap(({ at }) => at ?? [])].map(at => at.depth),
    (narrow ? size.width : left - durationWidth()) * 0.45
  )

  // If the query, the window or the threshold changes, the same rows stay visible.
  const choice = `${search.only.value} ${time.windowText.value} ${time.shortest.value} ${search.mode.value}`,
    chosenBefore = useRef(choice)
  useEffect(() => {
    if (chosenBefore.current !== choice) scroll.hold()
    chosenBefore.current = choice
  }, [choice])
  useEffect(() => {
    scroll.reach()
  }, [selection.wanted.value, scroll.pages, p])

  // The wheel scrolls the rows. With a modifier key, it moves or zooms the time.
  useWheel(chart, scroll.by)
  useTouch(chart.box)

  // The rows with bars: the rows that stay at the top, in the first places, and the visible rows below them.
  const barred = rows.flatMap(({ i, at: behind }) => {
    const at = sticky[i - top] ?? behind
    return at ? [{ i, at, by: origin(i, at), isSpan: roleOf(at.flags) === roleSpan }] : []
  })
  // The states of the goroutines of visible spans.
  const wides = barred
      .flatMap(({ at, by, isSpan }) => {
        if (!isSpan || at.start_unix_nano === null) return []
        const from = at.start_unix_nano - by,
          wide = Math.round(x(axis, from + (at.took_nano ?? 0n)) - x(axis, from))
        return wide < 3 ? [] : [`${at.row}:${Math.min(400, wide)}`]
      })
      .join(),
    strips = useAnswer('states', m.goroutines && wides && { rows: wides }).value
  // The numbers of hits below the visible rows that are closed.
  const closed = rows.flatMap(({ at }) => (at && isParent(at.flags) && !isExpanded(at.flags) ? at.row : [])).join(),
    { value: counts, asked } = useAnswer(
      'folded',
      search.found.value && closed && { q: search.query.value, window: time.windowText.value, rows: closed }
    ),
    hitsBelow = new Map(asked?.rows.split(',').map((row, i) => [Number(row), counts![i]!]))
  const bars: Bar[] = barred.flatMap(({ i, at, by, isSpan }) => {
    if (narrow && !isSpan) return [] // a narrow page shows the attributes of the row in this place
    return [
      {
        y: (i - top) * row + row - (narrow ? 24 : 22),
        of: at,
        by,
        shade: trace.shade(at.service, at.name),
        parts: at.parts.map(p => ({ ...p, shade: trace.shade(p.service, p.name) })),
        path: (selection.path.value?.of.get(at.row) ?? []).map(p => ({ from: p.from - by, to: p.to - by })),
        states: strips ? (strips[at.row] ?? ['']) : []
      }
    ]
  })
  const bottom = scroll.bottom()
  const thumb = p.total > 0 ? clamp(24, (size.height * size.height) / (p.total * row), size.height) : 0
  const pull = (e: PointerEvent) => {
    const move = (e: PointerEvent) =>
      scroll.to(Math.round(((spot(chart.box, e).y - thumb / 2) / (size.height - thumb)) * bottom))
    move(e)
    drag(e, move)
  }
  const resize = (e: PointerEvent) =>
    drag(e, e => {
      page.nameShare.value = (spot(chart.box, e).x / size.width).toFixed(3)
    })
  const columns = narrow ? '1fr auto' : `${left - durationWidth()}px ${durationWidth()}px 1fr`
  // rowOf draws the row with number i at the given place. If i is below 0, the row stays at the top.
  const rowOf = (i: number, at: TreeRow | null, place: number, onSelect: () => void) => (
    <Row
      key={i}
      i={i}
      at={at}
      hits={hitsBelow.get(at?.row ?? 0) ?? 0}
      parent={at ? (p.up(at)?.service ?? '') : ''}
      top={place * row}
      columns={columns}
      indent={indent}
      unreadable={!at && p.unreadable(i)}
      onSelect={onSelect}
    />
  )
  const isOverBars = (e: MouseEvent) =>
    chart.spot(e).x >= chart.left && !(e.target as HTMLElement).closest('button,.sb')
  // A drag chooses a part of the axis: over the ruler, and with a mouse also over the bars.
  const brush = (e: PointerEvent) => {
    if (!lengths && p.total > 0 && !e.button) chart.brush(e)
  }
  return (
    <div class="tree">
      <div class="thead note under2 grid rigid rel" style={{ gridTemplateColumns: columns }}>
        {!narrow && <div>Name</div>}
        {!narrow && <div class="n">{m.spans ? 'Duration' : 'Time'}</div>}
        <div
          class="ruler crosshair rel cut"
          title="Drag over a part to see only this part"
          onPointerDown={brush}
          onMouseDown={e => e.preventDefault()}
          onDblClick={time.wholeAxis}>
          <Ruler axis={axis} left={4} lengths={lengths} />
        </div>
        {!narrow && (
          <div class="rsz column" style={{ left: left - durationWidth() - 4 + 'px' }} onPointerDown={resize} />
        )}
      </div>
      <div
        class="rw rel grow"
        ref={chart.box}
        onPointerDown={e => {
          if (e.pointerType === 'mouse' && isOverBars(e)) brush(e)
        }}
        onMouseDown={e => {
          if (isOverBars(e) || e.detail > 1) e.preventDefault()
        }}
        onPointerMove={e => {
          const isOver = !narrow && e.pointerType !== 'touch' && chart.spot(e).x >= chart.left
          chart.cross.value = isOver ? chart.place(e) : null
        }}
        onPointerLeave={set(chart.cross, null)}
        onWheel={scroll.moved}>
        <div
          class="rows abs"
          role="treegrid"
          aria-label="Spans and log records"
          aria-rowcount={p.total}
          aria-colcount={3}
          tabIndex={page.selected.value && scroll.selectedAt() >= 0 ? -1 : 0}>
          {rows.map(({ i, at }) =>
            rowOf(i, at, i - top, () => {
              page.sheet.value = narrow
              scroll.select(i)
            })
          )}
        </div>
        {sticky.length > 0 && (
          <div class="sticky abs" role="presentation">
            {sticky.map((at, n) => rowOf(-1 - n, at, n, () => selection.go(at.row)))}
          </div>
        )}
        <Canvas
          of={chart}
          name="tree"
          width={axisWidth + 26}
          height={size.height}
          paint={pen => draw(pen, bars, axis, narrow ? [] : steps(axis))}
          class="bars abs"
          style={{ left: left + 'px' }}
        />
        <Over of={chart} axis={axis} left={axisLeft} />
        {p.total * row > size.height && (
          <div class="sb column" aria-hidden onPointerDown={pull}>
            <i style={{ top: (bottom ? top / bottom : 0) * (size.height - thumb) + 'px', height: thumb + 'px' }} />
          </div>
        )}
        {p.total === 0 && <Empty />}
        {follow.fresh.value > 0 && !scroll.atEnd && (
          <button
            class="btn p pill abs"
            onClick={() => {
              if (follow.paused.value) follow.resume.value?.()
              scroll.toEnd()
            }}>
            {count(follow.fresh.value)} new
          </button>
        )}
      </div>
      {!narrow && <RuntimeLane axis={axis} left={axisLeft} />}
    </div>
  )
}

function Empty() {
  return (
    <div class="blank ground soft abs grid">
      <h2>{search.only.value ? 'Nothing matches' : 'There is nothing here'}</h2>
      <p>
        {time.shortest.value
          ? 'No span took as long.'
          : time.windowText.value
            ? 'No row is in the chosen time.'
            : search.only.value
              ? 'No row is selected by the query.'
              : 'The file has no spans and log records yet.'}
      </p>
      {time.windowText.value && (
        <button class="btn" onClick={() => time.choose(null)}>
          Show the whole time
        </button>
      )}
      {search.only.value && (
        <button class="btn" onClick={() => selection.setMode('mark')}>
          Show everything
        </button>
      )}
    </div>
  )
}
