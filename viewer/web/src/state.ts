// What the page shows: all of it is in the address, so that a link shows the same again.
import { batch, computed, effect, signal } from '@preact/signals'
import {
  Entry,
  Found,
  Meta,
  Part,
  Problem,
  readToggled,
  Rows,
  Server,
  Shape,
  shapeQuery,
  Source,
  Strip,
  TreeRow
} from './source'
import { Static } from './static'
import { moment } from './text'

export type View = 'top' | 'tree' | 'flame' | 'table'
export type Mode = 'mark' | 'only'

export const meta = signal<Meta | null>(null)

// hue is the color of a service.
// shade is the number of the color of a span: of its service, or if there is one alone of its name.
export function shade(service = '', name = ''): number {
  const m = meta.value!
  return m.services.length > 1
    ? Math.max(0, m.services.indexOf(service)) % 8
    : 8 + (Object.hasOwn(m.names, name) ? Number(m.names[name]) : name.length % 10)
}
export const hue = (service?: string, name?: string) => ({ background: `var(--s${shade(service, name)})` })
export const view = signal<View>('tree')
export const text = signal('') // of the query, as it is written
export const query = signal('') // the last one that could be run
export const mode = signal<Mode>('mark')
export const than = signal('') // the query with whose hits those of the query are compared
export const selected = signal(0)
export const root = signal(0)
export const depth = signal(0)
export const toggled = signal<number[]>([])
export interface Period {
  from: bigint
  to: bigint
}
export const axis = signal<Period | null>(null) // the part of the time that is drawn; null: all of what is chosen
export const chosen = signal<Period | { last: bigint } | null>(null) // the part of the time whose rows are shown; null: all of it
export const inside = signal(true) // rows outside of what is chosen are left out
export const outside = signal(0) // outermost rows that are
export const shortest = signal(0n) // spans that took less are left out; 0: none
export const lane = signal(true) // the runtime is drawn below the rows
export const withPath = signal(false) // the critical path of what is selected is drawn
export const path = signal<{ row: number; length: bigint; measured: boolean; of: Map<number, Period[]> } | null>(null)
export const folded = signal(false) // long times without anything take no room on the axis
export const strip = signal<Strip | null>(null)
export const form = signal<'' | 'rows' | 'calls' | 'compare'>('') // of the table
export const wide = signal<'time' | 'count' | 'lanes'>('time') // what is wide in the flame; lanes: it is in time
export const order = signal(0) // the column by which the table is sorted, from 1 on; below 0: the smallest first
export const found = signal<Found | null>(null)
export const searching = signal(false)
export const least = signal(-1) // as many hits there are at least, while it is searching
export const problem = signal<Problem | null>(null) // of the query
export const notice = signal('')
export const details = signal(true)
export const sheet = signal(false) // on a phone the details are in sight
export const help = signal(false)
export const paused = signal(false)
export const fresh = signal(0) // rows that came since it was paused, or since the end was in sight
export const rowsKnown = signal(0)
export const spoken = signal('') // in the live region
export const other = signal('') // the fingerprint of the link's file, if it is another one

let source: Source
export const src = () => source

export const words = signal<string[]>([]) // of the query, to be marked
export const only = computed(() => (mode.value === 'only' ? query.value : ''))
// windowText is what is chosen of the time, as the server takes it; empty if rows outside are shown, too.
const chosenText = () =>
  !chosen.value ? '' : 'last' in chosen.value ? 'last:' + chosen.value.last : `${chosen.value.from},${chosen.value.to}`
export const windowText = computed(() => (inside.value ? chosenText() : ''))
export const shape = computed<Shape>(() => ({
  root: root.value,
  depth: depth.value,
  toggled: toggled.value,
  only: only.value,
  window: windowText.value,
  least: shortest.value
}))

// part is what panels are about.
export const part = (): Part => ({
  q: query.value && !problem.value ? query.value : '',
  than: than.value,
  root: root.value,
  window: windowText.value
})

// otherSide names what the query is compared with; it is empty if that is all other rows.
export const otherSide = () =>
  than.value ? (meta.value!.against ? `${than.value} in ${meta.value!.against}` : than.value) : meta.value!.against

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

// pace changes when an answer about the whole trace is asked for anew: while it grows, with each twelfth of it.
export const pace = () =>
  meta.value!.follow ? Math.floor(Math.log2(meta.value!.entries + 1) * 8) : meta.value!.entries

// idle are the long times in which nothing begins or ends.
export const idle = (): Period[] =>
  (strip.value?.idle ?? []).map(([from, to]) => ({ from: BigInt(from), to: BigInt(to) }))

// The critical path is that of the outermost span above what is selected.
let asking = new AbortController()
export function followPath() {
  const row = selected.value,
    on = withPath.value,
    n = meta.value && pace()
  asking.abort()
  if (!on || !row || !n) {
    path.value = null
    return
  }
  const own = (asking = new AbortController())
  source.critical(row, own.signal).then(
    p => {
      const of = new Map<number, Period[]>()
      for (let i = 0; p && i < p.marks.length; i += 3) {
        const row = p.marks[i]!,
          from = p.from_unix_nano + BigInt(p.marks[i + 1]!)
        of.set(row, [...(of.get(row) ?? []), { from, to: from + BigInt(p.marks[i + 2]!) }])
      }
      path.value = p && p.marks.length ? { row: p.span.row, length: p.duration_nano, measured: !p.inferred, of } : null
    },
    () => {
      if (!own.signal.aborted) path.value = null
    }
  )
}

// leaveOutShort leaves out the spans that took less than a hundredth of a time, or shows them again.
export function leaveOutShort(of: bigint) {
  acts++
  if (shortest.value) {
    shortest.value = 0n
    return
  }
  let round = 1n
  while (round * 1000n <= of) round *= 10n
  shortest.value = [5n, 2n, 1n].map(n => n * round).find(n => n * 100n <= of) ?? round
}

// choose leaves out the rows that are outside of a part of the time; null shows all.
export function choose(part: typeof chosen.value) {
  if (part && 'from' in part && part.to - part.from < 10n) part = { from: part.from, to: part.from + 10n }
  acts++
  batch(() => {
    chosen.value = part
    axis.value = null
    inside.value = true
  })
  if (text.value.trim()) find(true)
}

// toggleInside shows what lies outside, too, or leaves it out again.
export function toggleInside() {
  if (!chosen.value) return
  inside.value = !inside.value
  if (text.value.trim()) find(true)
}

// wholeAxis shows all of what is chosen, and then all of the time.
export function wholeAxis() {
  if (axis.value) axis.value = null
  else if (chosen.value) choose(null)
}

// embedded says that the page is a part of an editor.
export const embedded = new URLSearchParams(location.search).get('embed') === '1'

const token = 'entrace-token'

// A browser may keep nothing for a page within another one.
const keep = (store: () => Storage) => ({
  get: (key: string) => {
    try {
      return store().getItem(key)
    } catch {
      return null
    }
  },
  set: (key: string, value: string) => {
    try {
      if (value) store().setItem(key, value)
      else store().removeItem(key)
    } catch {
      /* it is for this time only */
    }
  }
})
const session = keep(() => sessionStorage),
  local = keep(() => localStorage)

// askOthers gets the tokens of the other pages of this address in this browser: another tab may be
// open, and one may be left of a program that has ended.
async function askOthers(): Promise<string[]> {
  const others = new BroadcastChannel(token + location.pathname),
    all = new Set<string>()
  others.onmessage = e => {
    if (e.data) all.add(e.data)
  }
  others.postMessage('')
  await new Promise(r => setTimeout(r, 300))
  others.close()
  return [...all]
}

function tellOthers(own: string) {
  const others = new BroadcastChannel(token + location.pathname)
  others.onmessage = e => {
    if (!e.data) others.postMessage(own)
  }
}

// place returns the part of the address that says what the page shows. For a page that is one file that is
// the fragment, because a browser lets such a page change nothing else.
export const place = () => (document.getElementById('entrace-data') ? '?' + location.hash.slice(1) : location.search)

// begin reads the address and opens the source. While there is no trace yet, it calls waits with what
// the page waits for.
export async function begin(waits: (text: string) => void) {
  const data = document.getElementById('entrace-data')
  if (data) {
    // the page is one file
    source = await Static.open(data)
    meta.value = await source.meta()
    rowsKnown.value = meta.value.rows
    readAddress(place())
    return
  }
  const hash = new URLSearchParams(location.hash.slice(1))
  const given = hash.get('token')
  if (given) history.replaceState(null, '', location.pathname + location.search)
  const look = async (own: string) => {
    source = new Server(own)
    const ask = () => source.meta(new URLSearchParams(location.search).get('f') ?? '')
    let m = await ask()
    if (own) {
      session.set(token, own)
      tellOthers(own)
    }
    while (m.waiting) {
      waits(m.waiting)
      await new Promise(r => setTimeout(r, 300))
      m = await ask()
    }
    meta.value = m
  }
  try {
    await look(given ?? session.get(token) ?? '')
  } catch (e) {
    if (given || !(e instanceof Problem && e.status === 401)) throw e
    for (const own of await askOthers()) if (!meta.value) await look(own).catch(() => {})
    if (!meta.value) throw e
  }
  rowsKnown.value = meta.value!.rows
  readAddress(location.search)
}

// grow takes in what the files are by now. If the rows have got other numbers, what was selected and
// open is given up.
export function grow(m: Meta) {
  const was = meta.value!,
    news = m.files.filter(f => !was.files.some(o => o.name === f.name)).map(f => f.name)
  batch(() => {
    meta.value = { ...m, same: was.same }
    rowsKnown.value = m.rows
    if (m.generation !== was.generation) {
      acts++
      going?.abort()
      prints.clear()
      selected.value = root.value = depth.value = 0
      toggled.value = []
      opened.value = false
      axis.value = chosen.value = before = whole = null
      wanted.value = null
    }
    prints.add(m.fingerprint)
  })
  if (news.length && (m.generation !== was.generation || m.files.length > was.files.length))
    tell(`The page goes on with ${news.join(', ')}`)
  else if (m.generation !== was.generation) tell('The files are others by now, and the page shows them')
}

// prints are the fingerprints of what has these row numbers: one changes while a file grows.
const prints = new Set<string>()

// arrivals counts the addresses that were taken in.
let arrived = 0
export const arrivals = () => arrived

// readAddress takes in the query part of an address.
export function readAddress(search: string) {
  arrived++
  const q = new URLSearchParams(search)
  q.delete('embed')
  const number = (name: string) => {
    const n = Number(q.get(name))
    return Number.isSafeInteger(n) && n >= 0 ? n : 0
  }
  batch(() => {
    const print = q.get('f')
    if (meta.value && !prints.size) {
      // of the first address the server has said whether it is the same
      prints.add(meta.value.fingerprint)
      if (print && meta.value.same) prints.add(print)
    }
    other.value = print && meta.value && !prints.has(print) ? print : ''
    const known = (n: number) => (n < (meta.value?.rows ?? 0) ? n : 0)
    view.value =
      q.get('v') === 'top' || (!q.size && (meta.value?.rows ?? 0) > 0)
        ? 'top'
        : q.get('v') === 'table'
          ? 'table'
          : q.get('v') === 'flame'
            ? 'flame'
            : 'tree'
    text.value = q.get('q') ?? ''
    than.value = q.get('vs') ?? ''
    details.value = !q.has('p')
    opened.value = q.has('x') || q.has('d') || q.get('m') === 'only'
    mode.value = q.get('m') === 'only' ? 'only' : 'mark'
    selected.value = other.value ? 0 : known(number('s'))
    root.value = other.value ? 0 : known(number('root'))
    depth.value = Math.min(maxDepth, number('d'))
    const open = other.value ? [] : readToggled(q.get('x')).filter(r => known(r) > 0)
    if (open.join() !== toggled.peek().join()) toggled.value = open // else the rows are there
    const w = /^(-?\d+)-(-?\d+)$/.exec(q.get('w') ?? '')
    axis.value = w ? { from: BigInt(w[1]!), to: BigInt(w[2]!) } : null
    const t = /^(?:last:(\d+)|(-?\d+),(-?\d+))$/.exec(q.get('t') ?? '')
    chosen.value = !t
      ? null
      : t[1]
        ? { last: BigInt(t[1]) }
        : BigInt(t[2]!) <= BigInt(t[3]!)
          ? { from: BigInt(t[2]!), to: BigInt(t[3]!) }
          : null
    inside.value = q.get('i') !== '0'
    folded.value = q.has('z')
    withPath.value = q.has('c')
    lane.value = q.get('g') !== '0'
    wide.value = q.get('by') === 'count' ? 'count' : q.get('by') === 'lanes' ? 'lanes' : 'time'
    shortest.value = /^\d{1,18}$/.test(q.get('l') ?? '') ? BigInt(q.get('l')!) : 0n
    form.value =
      q.get('b') === 'rows'
        ? 'rows'
        : q.get('b') === 'calls'
          ? 'calls'
          : q.get('b') === 'compare' && (meta.value?.against || than.value)
            ? 'compare'
            : ''
    order.value = Number.isSafeInteger(Number(q.get('o'))) ? Number(q.get('o')) : 0
  })
}

// address returns the query part that shows what the page shows.
export function address(): string {
  const q = new URLSearchParams()
  if (meta.value) q.set('f', meta.value.fingerprint)
  q.set('v', view.value)
  if (embedded) q.set('embed', '1')
  const asked = view.value === 'table' && problem.value?.command ? text.value.trim() : query.value
  if (asked) q.set('q', asked)
  if (than.value) q.set('vs', than.value)
  if (mode.value === 'only') q.set('m', 'only')
  if (selected.value) q.set('s', String(selected.value))
  const s = shapeQuery({ ...shape.value, only: '', window: '', least: 0n })
  if (s.root) q.set('root', String(s.root))
  if (s.depth) q.set('d', String(s.depth))
  if (s.x || (opened.value && !s.depth)) q.set('x', s.x)
  if (!details.value) q.set('p', '0')
  if (axis.value) q.set('w', `${axis.value.from}-${axis.value.to}`)
  if (chosen.value) q.set('t', chosenText())
  if (chosen.value && !inside.value) q.set('i', '0')
  if (folded.value) q.set('z', '1')
  if (withPath.value) q.set('c', '1')
  if (!lane.value) q.set('g', '0')
  if (view.value === 'flame' && wide.value !== 'time') q.set('by', wide.value)
  if (shortest.value) q.set('l', String(shortest.value))
  if (view.value === 'table' && form.value) q.set('b', form.value)
  if (view.value === 'table' && order.value) q.set('o', String(order.value))
  return '?' + q
}

// step tells the states apart between which the browser's Back goes; within one it does not.
const jumps = signal(0)
export const step = () =>
  [
    shortest.value,
    view.value,
    than.value,
    wide.value,
    root.value,
    mode.value,
    axis.value === null,
    chosenText(),
    form.value,
    jumps.value
  ].join()

// back shows what an address shows that was left.
export function back(search: string) {
  going?.abort()
  acts++
  batch(() => {
    readAddress(search)
    if (!root.value) whole = null
    query.value = text.value
    if (selected.value) wanted.value = { row: selected.value }
  })
  find()
}

// maxDepth is more levels than there can be; maxToggled is how many rows can be opened and closed
// beside the levels.
export const maxDepth = 1_000_000_000
const maxToggled = 3900

// opened says that somebody has chosen what is open: then the first screen is not filled.
export const opened = signal(false)

// What is open in the tree, and what was before Only hits, and before a subtree.
interface Open {
  depth: number
  toggled: number[]
}
let before: Open | null = null
let whole: (Open & { axis: typeof axis.value; mode: Mode; before: Open | null }) | null = null

let acts = 0 // counts what people did, so that an answer that comes late changes nothing

// open makes so many levels open.
export function open(levels: number) {
  acts++
  batch(() => {
    opened.value = true
    depth.value = Math.min(maxDepth, levels)
    toggled.value = []
  })
}

// openToHits opens what the hits are below, and nothing else.
export async function openToHits() {
  if (!query.value) return
  const at = ++acts
  try {
    const w = await source.way(query.value, root.value, windowText.value)
    if (acts !== at) return
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
  acts++
  batch(() => {
    opened.value = true
    if (to === 'only') before = { depth: depth.value, toggled: toggled.value }
    depth.value = to === 'only' ? maxDepth : (before?.depth ?? (root.value ? 1 : 0))
    toggled.value = to === 'only' ? [] : (before?.toggled ?? [])
    mode.value = to
  })
  if (selected.value && view.value === 'tree') go(selected.value, false)
}

// toggle opens or closes a row.
export function toggle(row: number) {
  opened.value = true
  acts++
  const list = toggled.value.length < maxToggled ? toggled.value : []
  if (list !== toggled.value)
    notice.value = 'So many rows were opened or closed one by one that the others are as they were'
  toggled.value = list.includes(row) ? list.filter(r => r !== row) : [...list, row].sort((a, b) => a - b)
}

// tell shows a text for a while.
export function tell(text: string) {
  notice.value = text
  setTimeout(() => {
    if (notice.value === text) notice.value = ''
  }, 8000)
}

// copy takes a text to the clipboard, and returns whether it could.
export const copy = (text: string, done = 'Copied', not = 'The browser did not let it be copied') =>
  Promise.resolve()
    .then(() => navigator.clipboard.writeText(text))
    .then(
      () => {
        spoken.value = done
        return true
      },
      () => {
        notice.value = not
        return false
      }
    )

// download makes the browser save a file.
export async function download(name: string, content: Promise<Blob>) {
  try {
    const url = URL.createObjectURL(await content),
      a = document.createElement('a')
    a.href = url
    a.download = name
    a.click()
    setTimeout(() => URL.revokeObjectURL(url), 10_000)
  } catch (e) {
    tell(e instanceof Error ? e.message : 'It cannot be saved')
  }
}

// reveal opens what a row is below, selects it and brings it into sight.
// With follow the part of the time that is shown goes there, too. A row that may be left out is not brought back.
export const wanted = signal<{ row: number; follow?: boolean; may?: boolean } | null>(null)
function reveal(row: number, path: { row: number }[], follow = true) {
  acts++
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

// go reveals a row, of which nothing is known yet. A jump is a step of the browser's Back.
let going: AbortController | null = null
export async function go(row: number, jump = true) {
  going?.abort()
  const own = (going = new AbortController())
  try {
    const e = await source.entry(row, false, own.signal)
    if (!own.signal.aborted)
      batch(() => {
        if (jump) jumps.value++
        reveal(row, e.path, jump)
      })
  } catch (e) {
    if (!own.signal.aborted) tell(textOf(e))
  }
}

// goToRequest reveals a row, and zooms to the request that it is part of: the outermost row above it.
export async function goToRequest(row: number) {
  going?.abort()
  const own = (going = new AbortController())
  try {
    const e = await source.entry(row, false, own.signal),
      up = e.path[0]
    const request = up ? await source.entry(up.row, false, own.signal) : e
    if (own.signal.aborted) return
    batch(() => {
      jumps.value++
      reveal(row, e.path, false)
      if (!request.start_unix_nano || request.role !== 'span') return
      const from = request.start_unix_nano,
        took = request.took_nano ?? 0n,
        room = took / 20n
      if (took > 0n) axis.value = { from: from - room, to: from + took + room }
    })
  } catch (e) {
    if (!own.signal.aborted) tell(textOf(e))
  }
}

const silent = 'The program that serves this page does not answer'
const textOf = (e: unknown) => (e instanceof Problem ? e.message : silent)

let search: AbortController | null = null

// find counts what the query selects. Quietly it leaves what is shown until it knows better, as when
// the trace has grown.
export async function find(quietly = false): Promise<boolean> {
  search?.abort()
  const own = (search = new AbortController())
  const q = text.value.trim()
  if (!q) {
    batch(() => {
      query.value = ''
      words.value = []
      found.value = null
      problem.value = null
      searching.value = false
    })
    return false
  }
  if (!quietly)
    batch(() => {
      searching.value = true
      least.value = -1
      notice.value = ''
    })
  // What takes a while shows its first hits before.
  const early = new AbortController()
  const soon =
    quietly || windowText.value
      ? undefined
      : setTimeout(
          () =>
            source
              .find({ q, at: 0, first: true, window: windowText.value }, AbortSignal.any([own.signal, early.signal]))
              .then(
                f => {
                  if (!f.known || !searching.value) return
                  least.value = f.count
                  if (!only.value)
                    batch(() => {
                      ran(q)
                      words.value = f.words
                    }) // what is in sight is marked
                },
                () => {}
              ),
          15
        )
  try {
    const f = await source.find({ q, at: selected.value, window: windowText.value }, own.signal).finally(() => {
      clearTimeout(soon)
      early.abort()
    })
    batch(() => {
      ran(q)
      words.value = f.words
      found.value = f
      problem.value = null
      searching.value = false
      if (!quietly) spoken.value = f.count.toLocaleString('en-US') + ' hits'
    })
    return true
  } catch (e) {
    if (own.signal.aborted) return false
    const wrong = e instanceof Problem ? e : new Problem(silent, 0)
    wrong.of = q
    batch(() => {
      searching.value = false
      problem.value = wrong
      spoken.value = ''
    })
    return false
  }
}

// count says which of the hits is selected.
let counting: ReturnType<typeof setTimeout> | undefined
export function count() {
  clearTimeout(counting)
  const q = query.value,
    at = selected.value
  if (!q || !at || searching.value || problem.value) return
  counting = setTimeout(
    () =>
      source.find({ q, at, window: windowText.value }).then(
        f => {
          if (q === query.peek() && at === selected.peek() && !searching.peek()) found.value = f
        },
        () => {}
      ),
    150
  )
}

// next goes to the next or the previous hit, error, or span that never ended.
export async function next(dir: 'next' | 'prev', what = '') {
  if (!what && !query.value) return
  going?.abort() // its answer would come in between
  const was = acts
  const f = await source
    .find({ at: selected.value, dir, what, q: what ? '' : query.value, window: windowText.value })
    .catch(e => tell(textOf(e)))
  if (!f || acts !== was) return
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

// adding says that the next query comes of a click: Back takes its condition away.
let adding = false
function ran(q: string) {
  if (adding) jumps.value++
  adding = false
  query.value = q
}

// add adds a condition to the query. It is a step of Back unless something else is that.
export function add(condition: string, without = false, step = true) {
  const c = without ? `!(${condition})` : condition
  const now = text.value.trim()
  adding = step
  text.value = now ? (/[{|]/.test(now) ? `${now} | { ${c} }` : `(${now}) && ${c}`) : c
  find()
}

// tableOf shows how often each value of a field is there.
export function tableOf(field: string) {
  batch(() => {
    jumps.value++
    text.value = `${text.value.trim() || '{}'} | count() by(${field}) | sort(count desc)`
    form.value = ''
    order.value = 0
    view.value = 'table'
  })
  find()
}

// A Pages keeps the rows of a shape, in the parts in which they came.
export const pageSize = 100
export class Pages {
  private parts: Rows[] = []
  private ups = new WeakMap<TreeRow, TreeRow>() // the row that a row is below
  private asked = new Map<number, AbortController>()
  private failed = new Set<number>()
  total = -1
  outside = 0
  from = 0n
  to = 0n

  // Old are the rows before, which are shown until these are here.
  constructor(
    public shape: Shape,
    readonly q: string,
    private changed: () => void,
    readonly fill = 0,
    private old: Pages | null = null
  ) {
    if (old) {
      this.old = old.parts.length ? old : old.old
      old.old = null
      this.total = old.total
      this.outside = old.outside
      this.from = old.from
      this.to = old.to
    }
  }

  // waits reports whether rows were asked for that have not come; of the last ones if those.
  waits(last = false): boolean {
    return last ? this.asked.has(-1) : this.asked.size > 0
  }

  // want makes the rows from one place up to another come.
  want(from: number, to: number) {
    for (let p = Math.floor(Math.max(0, from) / pageSize); p <= Math.floor(Math.max(0, to - 1) / pageSize); p++) {
      const begin = Math.max(from, p * pageSize),
        end = Math.min(to, (p + 1) * pageSize, this.total < 0 ? to : Math.max(1, this.total))
      if (
        begin < end &&
        !this.asked.has(p) &&
        !this.failed.has(p) &&
        !this.parts.some(
          r => r.first <= begin && (end <= r.first + r.rows.length || r.first + r.rows.length === r.total)
        )
      )
        this.load(p)
    }
  }

  // wantLast makes the last n rows come, however many there are by now.
  wantLast(n: number) {
    if (!this.asked.has(-1)) this.load(-1, n)
  }

  private async load(p: number, n = pageSize) {
    const stop = new AbortController()
    this.asked.set(p, stop)
    try {
      const fill = p === 0 && this.fill ? { fill: this.fill } : {}
      this.take(
        await source.rows(
          this.shape,
          { ...(p < 0 ? { last: true } : { first: p * pageSize }), n, q: this.q, ...fill },
          stop.signal
        )
      )
    } catch (e) {
      if (stop.signal.aborted) return
      this.failed.add(p)
      notice.value = textOf(e)
      if (!(e instanceof Problem))
        setTimeout(() => {
          this.failed.delete(p)
          this.changed()
        }, 2000)
    }
    this.asked.delete(p)
    if (!this.asked.size && !this.failed.size) this.old = null
    this.changed()
  }

  private take(r: Rows) {
    this.total = r.total
    this.outside = r.outside
    this.from = r.from_nano
    this.to = r.to_nano
    const ups: TreeRow[] = [] // those that the next row may be below
    for (const x of [...r.above, ...r.rows]) {
      while (ups.length && ups.at(-1)!.depth >= x.depth) ups.pop()
      if (ups.length) this.ups.set(x, ups.at(-1)!)
      ups.push(x)
    }
    if (this.parts.length > 20) this.parts.shift()
    this.parts.push(r)
    if (this.fill) filled.value = r.toggled ?? []
  }

  // unreadable reports whether the rows at a place were asked for and cannot be read.
  unreadable(i: number): boolean {
    return this.failed.has(Math.floor(i / pageSize))
  }

  at(i: number): TreeRow | null {
    const page = this.parts.findLast(r => r.first <= i && i < r.first + r.rows.length)
    return page ? page.rows[i - page.first]! : (this.old?.at(i) ?? null)
  }

  // place returns where a row is, if it is here.
  place(row: number): number {
    for (const page of this.parts) {
      const k = page.rows.findIndex(r => r.row === row)
      if (k >= 0) return page.first + k
    }
    return this.old?.place(row) ?? -1
  }

  // up returns the row that a row is below, as far as that is known here.
  up(r: TreeRow): TreeRow | undefined {
    return this.ups.get(r) ?? this.old?.up(r)
  }

  // above returns the rows that the one at a place is below, from the top.
  above(i: number): TreeRow[] {
    const out: TreeRow[] = []
    for (let r = this.at(i); r; ) {
      r = this.up(r) ?? null
      if (r) out.unshift(r)
    }
    return out
  }

  stop() {
    for (const s of this.asked.values()) s.abort()
  }
}

// filled are the rows that the first answer of a trace has opened.
export const filled = signal<number[] | null>(null)

export const entry = signal<Entry | null>(null)

// lastTime is the last time in the trace.
export const lastTime = () => meta.value?.last_unix_nano ?? 0n

// running reports whether a process writes one of the files; ending says how the newest of them ended.
export const running = () => !meta.value!.states.length || meta.value!.states.some(x => x.word === 'running')
export function ending(): string {
  const m = meta.value!,
    word = m.states[m.newest]?.word ?? 'ended'
  return word === 'killed' && m.timed ? `Killed at ${moment(lastTime(), 0)}` : word[0]!.toUpperCase() + word.slice(1)
}

// resume goes on after a pause; the page sets it.
// kept remembers a choice of the user over a reload.
export function kept(name: string, otherwise: string) {
  const key = 'entrace-' + name,
    s = signal(local.get(key) ?? otherwise)
  effect(() => local.set(key, s.value !== otherwise ? s.value : ''))
  return s
}

export const facets = kept('facets', '1') // are in sight where there is room
export const facetsOver = signal(false) // lie over the rows where there is none
export const tab = kept('tab', 'why') // of the details
export const theme = kept('theme', 'auto')
export const nameShare = kept('name', '') // of the width, '' for what suits the trace

export const resume = signal<(() => void) | null>(null)

// leave shows everything again, as it was before the subtree.
function leave() {
  root.value = 0
  opened.value = true
  depth.value = whole?.depth ?? 1
  toggled.value = whole?.toggled ?? []
  axis.value = whole?.axis ?? null
  mode.value = whole?.mode ?? mode.value
  before = whole?.before ?? null
  whole = null
}

// subtree shows a row and what is below it alone, and 0 everything again, as it was.
export const rootName = signal('')
export function subtree(row: number) {
  acts++
  batch(() => {
    sheet.value = false
    if (!row) leave()
    else {
      if (!root.value)
        whole = { depth: depth.value, toggled: toggled.value, axis: axis.value, mode: mode.value, before }
      opened.value = mode.value === 'only' // else as much is opened as there is room for
      root.value = row
      depth.value = mode.value === 'only' ? maxDepth : 0
      toggled.value = []
      axis.value = before = null
    }
    if (selected.value) wanted.value = { row: selected.value }
  })
}
