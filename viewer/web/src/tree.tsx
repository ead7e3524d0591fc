// The tree with its time axis.
import { batch, effect, signal, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { drag, set, spot, useAnswer, useLatest } from './ask'
import { type Axis, type Bar, clamp, draw, foldsIn, steps, x } from './bars'
import { Canvas, Over, Ruler, useChart, useWheel } from './chart'
import * as follow from './follow'
import { Icon, Level } from './icons'
import { indents, staying } from './indent'
import * as page from './page'
import { filled, Pages, pageSize } from './pages'
import { RuntimeLane } from './runtime'
import * as search from './search'
import * as selection from './selection'
import {
  type Heat,
  isError,
  isExpanded,
  isHit,
  isOpen,
  isParent,
  levelOf,
  roleEvent,
  roleOf,
  roleSpan,
  type TreeRow
} from './source'
import { count, duration, many, marked, moment, plain, written } from './text'
import * as time from './time'
import * as trace from './trace'

const narrow = matchMedia('(max-width:720px)'),
  coarse = matchMedia('(pointer:coarse)')
export const phone = () => narrow.matches
const rowHeight = () => (!phone() ? 22 : coarse.matches ? 46 : 36)
const durationWidth = () => (written.dated ? 130 : 86) // in pixels; most of it is for a time of day

// list has functions for keys that move the tree. The component of the tree sets them.
export const list: {
  move?: (by: number) => void
  end?: (last: boolean) => void
  page?: (by: number) => void
  open?: (open: boolean) => void
  root?: () => void
  zoom?: (by: number, at?: number) => void
  pan?: (by: number) => void
  fit?: () => void
  more?: () => void
  short?: () => void
} = {}

// pages has the rows of the current shape. If the shape changes, another Pages replaces it.
const version = signal(0)
let pages: Pages | null = null
let shown: Pages | null = null // equal to pages, or the previous pages while no row of pages is loaded
let stick = false // whether the end stays visible
let awaited = -1 // the position of a row to select once it is loaded; -1: none
let chooseLast = false // select the last row once it is loaded
let late = false // whether rows were added since the last request
let lastRows = 60 // the number of rows in a request for the end

function current(): Pages {
  const shape = selection.shape.value,
    q = search.query.value
  if (!pages || pages.shape !== shape || pages.q !== q) {
    pages?.stop()
    const same = pages && pages.shape === shape ? pages : null
    if (!same) awaited = -1
    pages = new Pages(shape, q, changed, selection.opened.value ? 0 : 40, same)
  }
  return pages
}

// renew requests the rows again, because rows were added. If answers are pending, it does this after they have
// arrived.
export function renew() {
  late = pages?.waits() ?? false
  if (late) return
  if (atEnd.value && (pages?.total ?? 0) > 0) stick = true
  askAgain()
}

// askAgain makes new pages. The old ones are shown until the new ones are loaded. If the end must stay visible,
// one request loads it, even if it moves in the meantime.
function askAgain() {
  if (pages) {
    pages.stop()
    pages = new Pages(pages.shape, pages.q, changed, 0, pages)
    if (stick && page.view.value === 'tree') pages.wantLast(lastRows)
  }
  version.value++
}

function changed() {
  version.value++
  if (late && !pages?.waits()) renew()
}

// The rows that the first answer opened become the open rows.
effect(() => {
  const f = filled.value
  if (!f) return
  batch(() => {
    selection.opened.value = true
    filled.value = null
    if (f.length) selection.toggled.value = [...f].sort((a, b) => a - b)
  })
  if (pages) pages.shape = selection.shape.peek() // pages already has the rows of this shape
})

const atEnd = signal(true)

// useStrips returns the states of the goroutines of visible spans. Each element of rows is a row and the number of
// its parts.
function useStrips(rows: [number, number][]) {
  const m = trace.meta.value!
  return useAnswer<Record<string, string[]>>(
    m.goroutines && rows.length ? `${m.generation} ${rows.join(' ')}` : '',
    signal => trace.source.strips(rows, signal)
  ).value
}

export function Tree() {
  const chart = useChart(10, 800, 400),
    size = chart.size.value
  const first = useSignal(0),
    nameWidth = Number(page.nameShare.value) || (trace.meta.value!.spans ? 0.42 : 0.7)
  void version.value
  const row = rowHeight()
  const coming = current()
  if (coming.total >= 0 || !shown) shown = coming
  const p = shown
  const visible = Math.ceil(size.height / row) + 1
  const full = Math.floor(size.height / row)
  // lastTop is a function, because rows may be added between the definition of an effect and its run.
  const lastTop = () => Math.max(0, (shown?.total ?? 0) - full)
  const bottom = lastTop()
  const scrolled = first.value // always read, so that this component is rendered again when it changes
  const ending = coming.waits(true)
  const top = stick && !ending ? bottom : Math.min(Math.floor(scrolled), bottom)
  if (stick && !ending && scrolled !== top) first.value = top
  if (!ending) coming.want(top, top + visible)
  lastRows = Math.min(500, visible + 20)
  const narrow = row > 22
  const left = narrow
    ? 4
    : !trace.meta.value!.timed
      ? size.width - 26
      : clamp(200, size.width * nameWidth, size.width - 220) + durationWidth()
  const axisWidth = Math.max(50, size.width - left - 26)
  const axisLeft = left + chart.left
  const c = time.chosen.value
  const known = `${trace.pace()} ${time.windowText.value}`
  const requests = useLatest<Heat>(
    trace.meta.value!.spans && !page.root.value && time.lengths.value !== false ? known : '',
    () => trace.source.heat(time.windowText.peek(), 1)
  ).value
  // Even if one request is far longer than all others, the bars of the others must stay visible.
  const longest = requests?.longest?.duration_nano ?? 0n,
    usual = ((requests?.p95_nano ?? 0n) * 115n) / 100n,
    length = page.root.value
      ? p.to - p.from // a subtree has its own scale
      : !search.only.value && usual > 0n && longest > 4n * usual
        ? usual
        : longest
  let range = time.axis.value ?? (c && 'from' in c ? c : { from: p.from, to: p.to })
  const inSight = range.to - range.from,
    tooShort = !time.axis.value && requests && requests.requests >= 100 && inSight > 20n * length
  const scale = (time.lengths.value ?? tooShort) ? length : 0n
  time.byLength.value = scale > 0n
  if (scale) range = { from: 0n, to: scale }
  // On the axis by length, the times of a row count from the beginning of its request.
  const origin = (i: number, at: TreeRow) => (scale && (p.above(i)[0] ?? at).start_unix_nano) || 0n
  const axis: Axis = {
    ...range,
    width: axisWidth,
    folds: time.folded.value ? foldsIn(time.idle(), range.from, range.to) : []
  }
  chart.axis = axis
  time.outside.value = p.outside
  atEnd.value = p.total >= 0 && top + full >= p.total
  if (atEnd.value && !follow.paused.value) follow.fresh.value = 0

  const rows: { i: number; at: TreeRow | null }[] = []
  for (let i = top; i < Math.min(top + visible, Math.max(0, p.total)); i++) rows.push({ i, at: p.at(i) })

  // The ancestors of the first row below them stay at the top.
  const sticky = staying(n => p.above(top + n), narrow ? 1 : 6)
  const shownSticky = sticky.filter(a => {
    const i = p.place(a.row)
    return i < 0 || i < top + sticky.length
  })
  const indent = indents(
    [...shownSticky, ...rows.flatMap(({ at }) => at ?? [])].map(at => at.depth),
    (narrow ? size.width : left - durationWidth()) * 0.45
  )

  // moved cancels a pending request to scroll to a row, because the user scrolls elsewhere.
  const moved = () => {
    stick = chooseLast = false
    awaited = -1
    if (selection.wanted.peek()?.may) selection.wanted.value = null
  }
  const scrollTo = (i: number) => {
    moved()
    first.value = clamp(0, i, lastTop())
  }
  const show = (i: number) => {
    const above = Math.min(p.above(i).length, narrow ? 1 : 6, Math.max(0, full - 2)) // the rows that stay at the top
    if (i < top + above) scrollTo(i - above)
    else if (i >= top + full) scrollTo(i - full + 1)
  }
  const select = (i: number) => {
    const at = p.at(i)
    show(i)
    awaited = at ? -1 : i
    if (!at) return
    page.selected.value = at.row
    speak(at)
  }
  useEffect(() => {
    if (awaited >= 0 && p.at(awaited)) select(awaited)
  })
  useEffect(() => {
    if (chooseLast && !ending && p.total > 0) {
      chooseLast = false
      select(p.total - 1)
    }
  })
  const toEnd = () => {
    stick = true
    awaited = -1
    askAgain()
  }
  const speak = ({ name, flags: f, took_nano: took, below }: TreeRow) => {
    page.spoken.value = [
      plain(name),
      roleOf(f) !== roleSpan ? '' : isOpen(f) ? 'never ended' : duration(took ?? 0n),
      below ? many(below, 'row below', 'rows below') : '',
      isError(f) ? 'error' : ''
    ]
      .filter(Boolean)
      .join(', ')
  }
  const selectedAt = () => (awaited >= 0 ? awaited : p.place(page.selected.value))
  const choose = (i: number) => {
    if (p.total > 0) select(clamp(0, i, p.total - 1))
  }

  list.move = by => {
    const at = selectedAt()
    choose(at < 0 ? top : at + by)
  }
  list.page = by => list.move!(by * (full - 1))
  list.end = end => {
    if (end) {
      chooseLast = true
      toEnd()
    } else choose(0)
  }
  list.open = open => {
    const i = selectedAt(),
      at = p.at(i)
    if (!at) return
    const f = at.flags
    if (open) {
      if (isParent(f) && !isExpanded(f)) selection.toggle(at.row)
      else list.move!(1)
    } else if (isExpanded(f)) selection.toggle(at.row)
    else {
      const up = p.above(i).at(-1)
      if (up) {
        page.selected.value = up.row
        speak(up)
        const k = p.place(page.selected.value)
        if (k >= 0) show(k)
        else selection.wanted.value = { row: page.selected.value }
      }
    }
  }
  list.more = () =>
    selection.open(1 + Math.max(0, ...rows.map(({ at }) => (at && isExpanded(at.flags) ? at.depth + 1 : 0))))
  list.short = () => time.leaveOutShort(inSight)
  list.root = () => {
    const at = p.at(selectedAt()),
      e = page.entry.value
    if (at ? isParent(at.flags) : e?.row === page.selected.value && e.below > 0)
      selection.subtree(at ? at.row : page.selected.value)
  }
  const setAxis = ({ from, to }: time.Period) => {
    if (scale) {
      time.toggleLengths()
      return
    }
    if (to - from < 10n) to = from + 10n
    time.axis.value =
      (from <= p.from && to >= p.to && time.windowText.peek()) ||
      (from <= trace.meta.peek()!.first_unix_nano && to >= trace.meta.peek()!.last_unix_nano)
        ? null
        : { from, to }
  }
  list.zoom = (by, at = chart.cross.peek() ?? 0.5) => {
    setAxis(time.zoomed(range, by, at))
  }
  list.pan = by => {
    const next = time.panned(range, by)
    if (by > 0 ? next.from > p.to : next.to < p.from) return
    setAxis(next)
  }
  list.fit = () => {
    const at = p.at(selectedAt())
    if (!at || at.start_unix_nano === null) return
    setAxis(time.around(at.start_unix_nano, at.took_nano || 1000n))
  }

  // If the query, the window or the threshold changes, the selected row stays visible, or if it is not, the first
  // row.
  const choice = `${search.only.value} ${time.windowText.value} ${time.shortest.value} ${search.mode.value}`,
    chosenBefore = useRef(choice)
  useEffect(() => {
    if (chosenBefore.current === choice) return
    chosenBefore.current = choice
    const i = selectedAt(),
      stays = i >= top && i < top + full ? page.selected.peek() : top ? rows[shownSticky.length]?.at?.row : 0
    if (stays && !stick && !selection.wanted.peek()) selection.wanted.value = { row: stays, may: true }
  }, [choice])

  // Scroll to the wanted row, wherever it is.
  const want = selection.wanted.value
  useEffect(() => {
    if (!want || coming !== p) return // until the new rows are loaded
    const known = p.place(want.row)
    stick = false
    // If the row is outside the shown part of the time, move that part to the row.
    const follow = ({ start_unix_nano: start, took_nano: took }: TreeRow) => {
      const a = !want.follow ? null : (time.axis.peek() ?? (c && 'from' in c ? c : null))
      if (!a || start === null || (start + (took ?? 0n) >= a.from && start <= a.to)) return
      const from = start - (a.to - a.from) / 5n
      time.axis.value = { from, to: from + a.to - a.from }
    }
    const done = (i: number) => {
      selection.wanted.value = null
      const at = p.at(i)
      if (at) follow(at)
      if (i < top + 6 || i >= top + full) scrollTo(i - Math.floor(full / 3))
    }
    if (known >= 0) {
      done(known)
      return
    }
    trace.source.rows(p.shape, { at: want.row, n: pageSize }).then(
      r => {
        if (selection.wanted.peek() !== want || pages !== p) return // the positions of rows may have changed
        const k = r.rows.findIndex(x => x.row === want.row)
        if (k < 0 && want.may) {
          selection.wanted.value = null
          scrollTo(r.first)
          return
        }
        if (k < 0 && time.windowText.peek()) {
          page.tell('The row lies outside of the chosen time: all rows are shown')
          time.toggleInside()
          return
        }
        if (k >= 0) {
          follow(r.rows[k]!)
          first.value = Math.max(0, r.first + k - Math.floor(full / 3))
        }
        selection.wanted.value = null
      },
      () => {
        if (selection.wanted.peek() === want) selection.wanted.value = null
      }
    )
  }, [want, coming, p])

  // The wheel scrolls the rows. With a modifier key, it moves or zooms the time.
  const by = (pixels: number) => {
    const height = rowHeight(),
      end = (shown?.total ?? 0) - Math.floor(chart.size.peek().height / height)
    first.value = clamp(0, first.peek() + pixels / height, end)
  }
  useWheel(chart, list, by)
  useEffect(() => {
    // A finger moves the rows. When it is lifted, they glide on for a while.
    let at = 0,
      speed = 0,
      time = 0,
      glide = 0
    const touch = (e: TouchEvent) => {
      cancelAnimationFrame(glide)
      at = e.touches[0]!.clientY
      time = e.timeStamp
      speed = 0
      moved()
    }
    const drag = (e: TouchEvent) => {
      if (e.touches.length > 1) return
      e.preventDefault()
      const y = e.touches[0]!.clientY
      speed = (at - y) / Math.max(1, e.timeStamp - time)
      by(at - y)
      at = y
      time = e.timeStamp
    }
    const leave = () => {
      if (matchMedia('(prefers-reduced-motion: reduce)').matches) return
      const on = () => {
        by(speed * 16)
        speed *= 0.95
        if (Math.abs(speed) > 0.02) glide = requestAnimationFrame(on)
      }
      glide = requestAnimationFrame(on)
    }
    const el = chart.box.current!
    el.addEventListener('touchstart', touch, { passive: true })
    el.addEventListener('touchmove', drag, { passive: false })
    el.addEventListener('touchend', leave, { passive: true })
    return () => {
      cancelAnimationFrame(glide)
      el.removeEventListener('touchstart', touch)
      el.removeEventListener('touchmove', drag)
      el.removeEventListener('touchend', leave)
    }
  }, [])

  const strips = useStrips(
    rows.flatMap(({ i, at: behind }) => {
      const at = shownSticky[i - top] ?? behind
      if (!at || roleOf(at.flags) !== roleSpan || at.start_unix_nano === null) return []
      const start = at.start_unix_nano,
        from = start - origin(i, at),
        wide = Math.round(x(axis, from + (at.took_nano ?? 0n)) - x(axis, from))
      return wide < 3 ? [] : [[at.row, Math.min(400, wide)]]
    })
  )
  const bars: Bar[] = rows.flatMap(({ i, at: behind }) => {
    const at = shownSticky[i - top] ?? behind
    if (!at) return []
    if (narrow && roleOf(at.flags) !== roleSpan) return [] // that place has the attributes of the row
    const by = origin(i, at)
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
  const thumb = p.total > 0 ? clamp(24, (size.height * size.height) / (p.total * row), size.height) : 0
  const scroll = (e: PointerEvent) => {
    const move = (e: PointerEvent) =>
      scrollTo(Math.round(((spot(chart.box, e).y - thumb / 2) / (size.height - thumb)) * bottom))
    move(e)
    drag(e, move)
  }
  const resize = (e: PointerEvent) =>
    drag(e, e => {
      page.nameShare.value = (spot(chart.box, e).x / size.width).toFixed(3)
    })
  const columns = narrow ? '1fr auto' : `${left - durationWidth()}px ${durationWidth()}px 1fr`
  const isOverBars = (e: MouseEvent) =>
    chart.spot(e).x >= chart.left && !(e.target as HTMLElement).closest('button,.sb')
  // A drag chooses a part of the axis: over the ruler, and with a mouse also over the bars.
  const brush = (e: PointerEvent) => {
    if (!scale && p.total > 0 && !e.button) chart.brush(e)
  }
  return (
    <div class="tree">
      <div class="thead" style={{ gridTemplateColumns: columns }}>
        {!narrow && <div>Name</div>}
        {!narrow && <div class="n">{trace.meta.value!.spans ? 'Duration' : 'Time'}</div>}
        <div
          class="ruler"
          title="Drag over a part to see it alone"
          onPointerDown={brush}
          onMouseDown={e => e.preventDefault()}
          onDblClick={time.wholeAxis}>
          <Ruler axis={axis} left={4} lengths={scale > 0n} />
        </div>
        {!narrow && <div class="rsz" style={{ left: left - durationWidth() - 4 + 'px' }} onPointerDown={resize} />}
      </div>
      <div
        class="rw"
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
        onWheel={moved}>
        <div
          class="rows"
          role="treegrid"
          aria-label="Spans and log records"
          aria-rowcount={p.total}
          aria-colcount={3}
          tabIndex={page.selected.value && selectedAt() >= 0 ? -1 : 0}>
          {rows.map(({ i, at }) => (
            <Row
              key={i}
              i={i}
              at={at}
              parent={at ? (p.up(at)?.service ?? '') : ''}
              top={(i - top) * row}
              columns={columns}
              indent={indent}
              unreadable={!at && p.unreadable(i)}
              onSelect={() => {
                page.sheet.value = narrow
                select(i)
              }}
            />
          ))}
        </div>
        {shownSticky.length > 0 && (
          <div class="sticky on" role="presentation">
            {shownSticky.map((at, n) => (
              <Row
                key={'s' + n}
                i={-1}
                at={at}
                parent={p.up(at)?.service ?? ''}
                top={n * row}
                columns={columns}
                indent={indent}
                onSelect={() => selection.go(at.row)}
              />
            ))}
          </div>
        )}
        <Canvas
          of={chart}
          name="tree"
          width={axisWidth + 26}
          height={size.height}
          paint={pen => draw(pen, bars, axis, narrow ? [] : steps(axis))}
          class="bars"
          style={{ left: left + 'px' }}
        />
        <Over of={chart} axis={axis} left={axisLeft} />
        {p.total * row > size.height && (
          <div class="sb" aria-hidden onPointerDown={scroll}>
            <i style={{ top: (bottom ? top / bottom : 0) * (size.height - thumb) + 'px', height: thumb + 'px' }} />
          </div>
        )}
        {p.total === 0 && <Empty />}
        {follow.fresh.value > 0 && !atEnd.value && (
          <button
            class="btn p pill"
            onClick={() => {
              if (follow.paused.value) follow.resume.value?.()
              toEnd()
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
    <div class="blank">
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
          Show all of the time
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

function Row({
  i,
  at,
  parent,
  top,
  columns,
  indent,
  unreadable,
  onSelect
}: {
  i: number
  at: TreeRow | null
  parent: string
  top: number
  columns: string
  indent: ReturnType<typeof indents>
  unreadable?: boolean
  onSelect: () => void
}) {
  const el = useRef<HTMLDivElement>(null)
  const row = at ? at.row : -1
  const isSelected = row === page.selected.value && i >= 0
  useEffect(() => {
    if (isSelected && document.activeElement?.closest('.rows')) el.current?.focus({ preventScroll: true })
  }, [isSelected])
  if (!at)
    return (
      <div class="r wait" role="row" style={{ top: top + 'px', gridTemplateColumns: columns }}>
        <div class="nm" role="gridcell">
          {unreadable ? 'this row cannot be read' : '…'}
        </div>
      </div>
    )
  const { flags: f, depth, service, took_nano: took } = at,
    role = roleOf(f)
  const closed = isParent(f) && !isExpanded(f)
  const dim = search.only.value !== '' && !isHit(f)
  const label = plain(at.name) || '(no name)'
  const words = isHit(f) ? search.words.value : []
  const shown = (text: string) =>
    words.length ? marked(text, words).map((part, i) => (i % 2 ? <mark>{part}</mark> : part)) : text
  return (
    <div
      ref={el}
      role="row"
      class={
        'r' +
        (isHit(f) ? ' hit' : '') +
        (dim ? ' dim' : '') +
        (role === roleSpan ? '' : ' log') +
        (isError(f) ? ' bad' : '')
      }
      data-row={row}
      tabIndex={isSelected ? 0 : -1}
      aria-level={depth + 1}
      aria-rowindex={i + 1}
      aria-selected={isSelected}
      aria-expanded={isParent(f) ? isExpanded(f) : undefined}
      style={{ top: top + 'px', gridTemplateColumns: columns }}
      onClick={onSelect}
      onDblClick={() => {
        if (isParent(f)) selection.subtree(row)
      }}>
      <div
        class="nm"
        role="gridcell"
        style={{ paddingLeft: 8 + Math.max(0, depth - indent.base) * indent.step + 'px' }}>
        {isParent(f) ? (
          <button
            class="tw"
            tabIndex={-1}
            aria-label={closed ? 'Open' : 'Close'}
            onClick={e => {
              e.stopPropagation()
              selection.toggle(row)
            }}
            onDblClick={e => e.stopPropagation()}>
            <span class={closed ? 'chev' : 'chev o'}>
              <Icon name="chevron" />
            </span>
          </button>
        ) : (
          <span class="tw" />
        )}
        {role === roleSpan ? (
          <i class="sw" style={trace.hue(service, at.name)} />
        ) : (
          <Level level={levelOf(f)} event={role === roleEvent} />
        )}
        <span class="t" title={label}>
          {shown(label)}
        </span>
        {service !== parent && role === roleSpan && trace.meta.value!.services.length > 1 && (
          <span class="svc">{plain(service)}</span>
        )}
        {isError(f) && role === roleSpan && <Level level={4} />}
        {closed && at.errors > 0 && (
          <span class="bd o err" title="errors below">
            {count(at.errors)}
          </span>
        )}
        {isOpen(f) && <span class="bd warn">never ended</span>}
        <span class="at">{shown(plain(at.text))}</span>
        {closed && !search.only.value && <span class="bl">{count(at.below)} below</span>}
      </div>
      <div role="gridcell" class={'du' + (took && took >= 1_000_000_000n ? ' s' : '')}>
        {role !== roleSpan ? (
          at.start_unix_nano === null ? (
            ''
          ) : (
            <time>{moment(at.start_unix_nano, phone() ? 0 : 3)}</time>
          )
        ) : took !== null ? (
          (isOpen(f) ? '≥ ' : '') + duration(took)
        ) : (
          ''
        )}
      </div>
      <div role="gridcell" class="bc" />
    </div>
  )
}
