// The address of the page contains the state of the page, so that a link restores the state.
import { batch, signal } from '@preact/signals'
import { act, details, form, jumps, lane, level, order, root, selected, view, wide } from './page'
import { find, mode, problem, query, text, than } from './search'
import { depth, earlier, going, maxDepth, opened, shape, toggled, wanted, withPath } from './selection'
import { readToggled, shapeQuery } from './source'
import { axis, chosen, chosenText, folded, inside, lengths, shortest } from './time'
import { corrected, embedded, meta } from './trace'

export const other = signal('') // the fingerprint of the file in the link, if the page shows another file

// prints are fingerprints of files in which rows have the same numbers as here. The fingerprint of a file changes
// while the file grows.
export const prints = new Set<string>()

// arrived is the number of calls of readAddress.
let arrived = 0

export const arrivals = () => arrived

// readAddress sets the state of the page from the query part of an address.
export function readAddress(search: string) {
  arrived++
  const q = new URLSearchParams(search)
  q.delete('embed')
  q.delete('clock')
  const number = (name: string) => {
    const n = Number(q.get(name))
    return Number.isSafeInteger(n) && n >= 0 ? n : 0
  }
  // one returns the value of a parameter if it is one of the given texts.
  const one = <T extends string>(name: string, ...of: T[]) => of.find(x => x === q.get(name))
  batch(() => {
    const print = q.get('f')
    if (meta.value && !prints.size) {
      // for the first address, the server has already said whether the file is the same
      prints.add(meta.value.fingerprint)
      if (print && meta.value.same) prints.add(print)
    }
    other.value = print && meta.value && !prints.has(print) ? print : ''
    const rows = meta.value?.rows ?? 0,
      known = (n: number) => (n < rows ? n : 0)
    view.value = one('v', 'top', 'table', 'logs', 'flame') ?? (!q.size && rows > 0 ? 'top' : 'tree')
    text.value = q.get('q') ?? ''
    than.value = q.get('vs') ?? ''
    details.value = !q.has('p')
    opened.value = q.has('x') || q.has('d') || q.get('m') === 'only'
    mode.value = q.get('m') === 'only' ? 'only' : 'mark'
    selected.value = other.value ? 0 : known(number('s'))
    root.value = other.value ? 0 : known(number('root'))
    depth.value = Math.min(maxDepth, number('d'))
    const open = other.value ? [] : readToggled(q.get('x')).filter(r => known(r) > 0)
    if (open.join() !== toggled.peek().join()) toggled.value = open // an equal list would load the same rows again
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
    lengths.value = q.has('len') ? q.get('len') === '1' : null
    lane.value = q.get('g') !== '0'
    wide.value = one('by', 'count', 'lanes', 'up') ?? 'time'
    shortest.value = /^\d{1,18}$/.test(q.get('l') ?? '') ? BigInt(q.get('l')!) : 0n
    level.value = one('least', 'info', 'warn', 'error') ?? ''
    form.value = one('b', 'rows', 'calls', ...(meta.value?.against || than.value ? (['compare'] as const) : [])) ?? ''
    order.value = Number.isSafeInteger(Number(q.get('o'))) ? Number(q.get('o')) : 0
  })
}

// address returns the query part of an address that contains the current state of the page.
export function address(): string {
  const q = new URLSearchParams()
  if (meta.value) q.set('f', meta.value.fingerprint)
  q.set('v', view.value)
  if (embedded) q.set('embed', '1')
  if (corrected) q.set('clock', 'auto')
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
  if (lengths.value !== null) q.set('len', lengths.value ? '1' : '0')
  if (!lane.value) q.set('g', '0')
  if (view.value === 'flame' && wide.value !== 'time') q.set('by', wide.value)
  if (shortest.value) q.set('l', String(shortest.value))
  if (view.value === 'table' && form.value) q.set('b', form.value)
  if (view.value === 'logs' && level.value) q.set('least', level.value)
  if (/table|logs/.test(view.value) && order.value) q.set('o', String(order.value))
  return '?' + q
}

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
    level.value,
    jumps.value
  ].join()

// back restores the state of the page that an earlier address contains.
export function back(search: string) {
  going.stop()
  act()
  batch(() => {
    readAddress(search)
    if (!root.value) earlier.whole = null
    query.value = text.value
    if (selected.value) wanted.value = { row: selected.value }
  })
  find()
}
