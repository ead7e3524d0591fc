// The selected row, and the open rows of the tree.
import { batch, computed, signal } from '@preact/signals'
import { act, acted, jumps, notice, root, selected, sheet, tell, turns, view } from './page'
import { find, found, type Mode, mode, only, query, text, textOf, than } from './search'
import type { Shape } from './source'
import { around, axis, type Period, shortest, toggleInside, windowText } from './time'
import { meta, pace, source } from './trace'

export const depth = signal(0)
export const toggled = signal<number[]>([])
export const withPath = signal(false) // whether the critical path of the selected row is drawn
export const path = signal<{ row: number; length: bigint; measured: boolean; of: Map<number, Period[]> } | null>(null)

export const shape = computed<Shape>(() => ({
  root: root.value,
  depth: depth.value,
  toggled: toggled.value,
  only: only.value,
  window: windowText.value,
  least: shortest.value
}))

// compareWith makes the current query the other side of a comparison, and clears the input for the next query.
export function compareWith() {
  batch(() => {
    than.value = query.value
    text.value = ''
    setMode('mark')
  })
  find()
  document.getElementById('query')?.focus()
}

// followPath requests the critical path of the outermost span above the selected row.
const asking = turns()

export function followPath() {
  const row = selected.value,
    on = withPath.value,
    n = meta.value && pace()
  asking.stop()
  if (!on || !row || !n) {
    path.value = null
    return
  }
  const own = asking.next()
  source.ask('critical', { row }, own).then(
    p => {
      const of = new Map<number, Period[]>()
      for (let i = 0; p && i < p.marks.length; i += 3) {
        const row = p.marks[i]!,
          from = p.from_unix_nano + BigInt(p.marks[i + 1]!),
          mark = { from, to: from + BigInt(p.marks[i + 2]!) },
          list = of.get(row)
        if (list) list.push(mark)
        else of.set(row, [mark])
      }
      path.value = p?.marks.length ? { row: p.span.row, length: p.duration_nano, measured: !p.inferred, of } : null
    },
    () => {
      if (!own.aborted) path.value = null
    }
  )
}

// maxDepth is more than any number of levels. maxToggled is the maximum number of rows that can be opened or
// closed individually, in addition to the levels.
export const maxDepth = 1_000_000_000

const maxToggled = 3900

// opened is true when the user has chosen which rows are open. Then the page does not open rows to fill the first
// screen.
export const opened = signal(false)

// An Open describes which rows of the tree are open. earlier.before is the state before the mode "Only hits", and
// earlier.whole the state before a subtree was shown.
interface Open {
  depth: number
  toggled: number[]
}

export const earlier: {
  before: Open | null
  whole: (Open & { axis: typeof axis.value; mode: Mode; before: Open | null }) | null
} = { before: null, whole: null }

const allOpen: Open = { depth: maxDepth, toggled: [] }
const openNow = (): Open => ({ depth: depth.value, toggled: toggled.value })

function reopen(rows: Open) {
  depth.value = rows.depth
  toggled.value = rows.toggled
}

// open opens the given number of levels.
export function open(levels: number) {
  act()
  batch(() => {
    opened.value = true
    reopen({ depth: Math.min(maxDepth, levels), toggled: [] })
  })
}

// openToHits opens only the rows above the hits.
export async function openToHits() {
  if (!query.value) return
  const at = act()
  try {
    const w = await source.ask('way', { q: query.value, root: root.value, window: windowText.value })
    if (acted() !== at) return
    batch(() => {
      setMode('mark')
      open(0)
      toggled.value = w.rows
    })
    if (w.more)
      tell(
        `There are too many hits: ${w.rows.length.toLocaleString('en-US')} rows are open, which lead to the first hits`
      )
  } catch (e) {
    tell(textOf(e))
  }
}

// setMode changes the mode: 'mark' shows all rows and marks the hits, 'only' shows only the hits and the rows
// above them.
export function setMode(to: Mode) {
  if (to === mode.value) return
  act()
  batch(() => {
    opened.value = true
    if (to === 'only') earlier.before = openNow()
    reopen(to === 'only' ? allOpen : (earlier.before ?? { depth: root.value ? 1 : 0, toggled: [] }))
    mode.value = to
  })
  if (selected.value && view.value === 'tree') go(selected.value, false)
}

// toggle opens or closes a row.
export function toggle(row: number) {
  opened.value = true
  act()
  const list = toggled.value.length < maxToggled ? toggled.value : []
  if (list !== toggled.value)
    notice.value = 'Too many rows were opened or closed one by one: the earlier ones are as they were'
  toggled.value = list.includes(row) ? list.filter(r => r !== row) : [...list, row].sort((a, b) => a - b)
}

// wanted is a row to scroll to. With follow, the shown part of the time moves to the row. With may, the row stays
// hidden if filters exclude it.
export const wanted = signal<{ row: number; follow?: boolean; may?: boolean } | null>(null)

// reveal opens the rows above a row, selects the row and scrolls to it.
function reveal(row: number, path: { row: number }[], follow = true) {
  act()
  batch(() => {
    view.value = 'tree'
    let from = !root.value ? 0 : root.value === row ? path.length : path.findIndex(p => p.row === root.value)
    if (from < 0) {
      leave()
      from = 0
    }
    opened.value = true
    const open = new Set(toggled.value.length + path.length < maxToggled ? toggled.value : [])
    if (path.length >= maxToggled) depth.value = maxDepth
    path.slice(from).forEach((p, level) => {
      const byDefault = level < depth.value
      if (byDefault === open.has(p.row)) open[byDefault ? 'delete' : 'add'](p.row)
    })
    toggled.value = [...open].sort((a, b) => a - b)
    selected.value = row
    wanted.value = { row, follow }
  })
}

export const going = turns()

// go reveals a row, even if the row is not loaded. With jump, the Back button returns to the previous place. With
// zoom, the axis shows the request of the row, that is, the outermost row above it.
export async function go(row: number, jump = true, zoom = false) {
  const own = going.next()
  try {
    const e = await source.ask('entry', { row }, own)
    const request = zoom && e.path[0] ? await source.ask('entry', { row: e.path[0].row }, own) : e
    if (own.aborted) return
    batch(() => {
      if (jump) jumps.value++
      reveal(row, e.path, jump && !zoom)
      const from = request.start_unix_nano,
        took = request.took_nano ?? 0n
      if (zoom && from && took > 0n && request.role === 'span') axis.value = around(from, took)
    })
  } catch (e) {
    if (!own.aborted) tell(textOf(e))
  }
}
export const goToRequest = (row: number) => go(row, true, true)

// next selects the next or the previous hit, error, or span that never ended.
export async function next(dir: 'next' | 'prev', what = '') {
  if (!what && !query.value) return
  going.stop() // a late answer to go would interfere
  const at = acted()
  const f = await source
    .ask('find', { at: selected.value, dir, what, q: what ? '' : query.value, window: windowText.value })
    .catch(e => tell(textOf(e)))
  if (!f || acted() !== at) return
  if (!f.count && windowText.value) {
    // search outside the chosen time
    toggleInside()
    tell('The chosen time has no such row: all rows are shown')
    next(dir, what)
    return
  }
  if (!f.count) {
    tell(what === 'error' ? 'There is no error' : what ? 'Every span has ended' : 'Nothing was found')
    return
  }
  if (!what) found.value = f
  else setMode('mark') // the row may not be a hit
  reveal(f.row, f.path)
}

// leave shows the whole tree, in its state before the subtree was shown.
function leave() {
  root.value = 0
  opened.value = true
  reopen(earlier.whole ?? { depth: 1, toggled: [] })
  axis.value = earlier.whole?.axis ?? null
  mode.value = earlier.whole?.mode ?? mode.value
  earlier.before = earlier.whole?.before ?? null
  earlier.whole = null
}

// rootName is the name of the root of the subtree.
export const rootName = signal('')

// subtree shows only a row and the rows below it. With 0, it shows the whole tree again, in its earlier state.
export function subtree(row: number) {
  act()
  batch(() => {
    sheet.value = false
    if (!row) leave()
    else {
      if (!root.value) earlier.whole = { ...openNow(), axis: axis.value, mode: mode.value, before: earlier.before }
      opened.value = mode.value === 'only' // otherwise rows are opened until the screen is full
      root.value = row
      reopen(opened.value ? allOpen : { depth: 0, toggled: [] })
      axis.value = earlier.before = null
    }
    if (selected.value) wanted.value = { row: selected.value }
  })
}
