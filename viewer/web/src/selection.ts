// The selected row, and what is open in the tree.
import { batch, computed, signal } from '@preact/signals'
import { act, acted, jumps, notice, root, selected, sheet, tell, turns, view } from './page'
import { find, found, type Mode, mode, only, query, text, textOf, than } from './search'
import type { Shape } from './source'
import { axis, type Period, shortest, toggleInside, windowText } from './time'
import { meta, pace, source } from './trace'

export const depth = signal(0)
export const toggled = signal<number[]>([])
export const withPath = signal(false) // the critical path of what is selected is drawn
export const path = signal<{ row: number; length: bigint; measured: boolean; of: Map<number, Period[]> } | null>(null)

export const shape = computed<Shape>(() => ({
  root: root.value,
  depth: depth.value,
  toggled: toggled.value,
  only: only.value,
  window: windowText.value,
  least: shortest.value
}))

// compareWith makes the query the other side of the next one.
export function compareWith() {
  batch(() => {
    than.value = query.value
    text.value = ''
    setMode('mark')
  })
  find()
  document.getElementById('query')?.focus()
}

// The critical path is that of the outermost span above what is selected.
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
  source.critical(row, own).then(
    p => {
      const of = new Map<number, Period[]>()
      for (let i = 0; p && i < p.marks.length; i += 3) {
        const row = p.marks[i]!,
          from = p.from_unix_nano + BigInt(p.marks[i + 1]!)
        of.set(row, [...(of.get(row) ?? []), { from, to: from + BigInt(p.marks[i + 2]!) }])
      }
      path.value = p?.marks.length ? { row: p.span.row, length: p.duration_nano, measured: !p.inferred, of } : null
    },
    () => {
      if (!own.aborted) path.value = null
    }
  )
}

// maxDepth is more levels than there can be; maxToggled is how many rows can be opened and closed
// beside the levels.
export const maxDepth = 1_000_000_000

const maxToggled = 3900

// opened says that somebody has chosen what is open: then the first screen is not filled.
export const opened = signal(false)

// What is open in the tree; earlier has what was before Only hits, and before a subtree.
interface Open {
  depth: number
  toggled: number[]
}

export const earlier: {
  before: Open | null
  whole: (Open & { axis: typeof axis.value; mode: Mode; before: Open | null }) | null
} = { before: null, whole: null }

// open makes so many levels open.
export function open(levels: number) {
  act()
  batch(() => {
    opened.value = true
    depth.value = Math.min(maxDepth, levels)
    toggled.value = []
  })
}

// openToHits opens what the hits are below, and nothing else.
export async function openToHits() {
  if (!query.value) return
  const at = act()
  try {
    const w = await source.way(query.value, root.value, windowText.value)
    if (acted() !== at) return
    batch(() => {
      setMode('mark')
      open(0)
      toggled.value = w.rows
    })
    if (w.more)
      tell(
        `These are too many hits: ${w.rows.length.toLocaleString('en-US')} rows are open, which lead to the first ones`
      )
  } catch (e) {
    tell(textOf(e))
  }
}

// setMode shows everything and marks the hits, or opens the way to all hits and shows nothing else.
export function setMode(to: Mode) {
  if (to === mode.value) return
  act()
  batch(() => {
    opened.value = true
    if (to === 'only') earlier.before = { depth: depth.value, toggled: toggled.value }
    depth.value = to === 'only' ? maxDepth : (earlier.before?.depth ?? (root.value ? 1 : 0))
    toggled.value = to === 'only' ? [] : (earlier.before?.toggled ?? [])
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
    notice.value = 'So many rows were opened or closed one by one that the others are as they were'
  toggled.value = list.includes(row) ? list.filter(r => r !== row) : [...list, row].sort((a, b) => a - b)
}

// reveal opens what a row is below, selects it and brings it into sight.
// With follow the part of the time that is shown goes there, too. A row that may be left out is not brought back.
export const wanted = signal<{ row: number; follow?: boolean; may?: boolean } | null>(null)

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

// go reveals a row, of which nothing is known yet. A jump is a step of the browser's Back. It may zoom to the request
// that the row is part of: the outermost row above it.
export async function go(row: number, jump = true, zoom = false) {
  const own = going.next()
  try {
    const e = await source.entry(row, false, own)
    const request = zoom && e.path[0] ? await source.entry(e.path[0].row, false, own) : e
    if (own.aborted) return
    batch(() => {
      if (jump) jumps.value++
      reveal(row, e.path, jump && !zoom)
      const from = request.start_unix_nano,
        took = request.took_nano ?? 0n
      if (zoom && from && took > 0n && request.role === 'span')
        axis.value = { from: from - took / 20n, to: from + took + took / 20n }
    })
  } catch (e) {
    if (!own.aborted) tell(textOf(e))
  }
}
export const goToRequest = (row: number) => go(row, true, true)

// next goes to the next or the previous hit, error, or span that never ended.
export async function next(dir: 'next' | 'prev', what = '') {
  if (!what && !query.value) return
  going.stop() // its answer would come in between
  const at = acted()
  const f = await source
    .find({ at: selected.value, dir, what, q: what ? '' : query.value, window: windowText.value })
    .catch(e => tell(textOf(e)))
  if (!f || acted() !== at) return
  if (!f.count && windowText.value) {
    // it may be outside
    toggleInside()
    tell('The chosen time has none: all rows are shown')
    next(dir, what)
    return
  }
  if (!f.count) {
    tell(what === 'error' ? 'There is no error' : what ? 'Every span has ended' : 'Nothing is found')
    return
  }
  if (!what) found.value = f
  else setMode('mark') // it may be none of the hits
  reveal(f.row, f.path)
}

// leave shows everything again, as it was before the subtree.
function leave() {
  root.value = 0
  opened.value = true
  depth.value = earlier.whole?.depth ?? 1
  toggled.value = earlier.whole?.toggled ?? []
  axis.value = earlier.whole?.axis ?? null
  mode.value = earlier.whole?.mode ?? mode.value
  earlier.before = earlier.whole?.before ?? null
  earlier.whole = null
}

// subtree shows a row and what is below it alone, and 0 everything again, as it was.
export const rootName = signal('')

export function subtree(row: number) {
  act()
  batch(() => {
    sheet.value = false
    if (!row) leave()
    else {
      if (!root.value)
        earlier.whole = {
          depth: depth.value,
          toggled: toggled.value,
          axis: axis.value,
          mode: mode.value,
          before: earlier.before
        }
      opened.value = mode.value === 'only' // else as much is opened as there is room for
      root.value = row
      depth.value = mode.value === 'only' ? maxDepth : 0
      toggled.value = []
      axis.value = earlier.before = null
    }
    if (selected.value) wanted.value = { row: selected.value }
  })
}
