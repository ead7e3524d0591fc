// The chosen part of the time, and the part on the axis.
import { batch, computed, signal } from '@preact/signals'
import type { Period } from './bars'
import { act } from './page'
import type { Strip, TreeRow } from './source'

export type { Period } from './bars'

export const axis = signal<Period | null>(null) // the part of the time that is drawn; null: the whole chosen part
export const chosen = signal<Period | { last: bigint } | null>(null) // the part of the time whose rows are shown; null: the whole time
export const inside = signal(true) // whether rows outside the chosen part are omitted
export const outside = signal(0) // the number of omitted outermost rows
export const shortest = signal(0n) // spans that took less are omitted; 0: no limit
export const folded = signal(false) // whether long times in which nothing happens are hidden on the axis
// With lengths, all bars begin at the start of their request, so that their lengths can be compared. Null: bars begin
// there only if the requests would otherwise be too short to be visible.
export const lengths = signal<boolean | null>(null)
export const byLength = signal(false) // whether bars are drawn by length now
export const strip = signal<Strip | null>(null)

// chosenText returns the chosen part of the time as a parameter for the server. windowText is chosenText, but empty
// if rows outside the part are also shown.
export const chosenText = () =>
  !chosen.value ? '' : 'last' in chosen.value ? 'last:' + chosen.value.last : `${chosen.value.from},${chosen.value.to}`

export const windowText = computed(() => (inside.value ? chosenText() : ''))

// idle returns the long periods in which nothing begins or ends.
export const idle = (): Period[] =>
  (strip.value?.idle ?? []).map(([from, to]) => ({ from: BigInt(from), to: BigInt(to) }))

// leaveOutShort omits the spans that took less than about a hundredth of the given time, or shows them again.
export function leaveOutShort(of: bigint) {
  act()
  if (shortest.value) {
    shortest.value = 0n
    return
  }
  let round = 1n
  while (round * 1000n <= of) round *= 10n
  shortest.value = [5n, 2n, 1n].map(n => n * round).find(n => n * 100n <= of) ?? round
}

const share = (n: bigint, part: number, of: number) => (n * BigInt(Math.round(part * of))) / BigInt(of)

// zoomed returns a period that is longer by the factor by. The time at the position place, from 0 to 1, stays at this
// position.
export function zoomed({ from, to }: Period, by: number, place: number): Period {
  const long = share(to - from, by, 100),
    next = long < 10n ? 10n : long,
    begin = from + share(to - from - next, place, 1000)
  return { from: begin, to: begin + next }
}

// panned returns a period of the same length. It is moved by the factor by times its length.
export function panned({ from, to }: Period, by: number): Period {
  const d = share(to - from, by, 100)
  return { from: from + d, to: to + d }
}

// around returns a span's time with a little time on both sides.
export const around = (from: bigint, took: bigint): Period => ({
  from: from - took / 20n,
  to: from + took + took / 20n
})

// follow moves the axis to a row that is outside of the axis.
export function follow({ start_unix_nano: start, took_nano: took }: TreeRow) {
  const c = chosen.peek(),
    a = axis.peek() ?? (c && 'from' in c ? c : null)
  if (!a || start === null || (start + (took ?? 0n) >= a.from && start <= a.to)) return
  const from = start - (a.to - a.from) / 5n
  axis.value = { from, to: from + a.to - a.from }
}

// choose hides the rows outside a part of the time. With null, it shows all rows.
export function choose(part: typeof chosen.value) {
  if (part && 'from' in part && part.to - part.from < 10n) part = { from: part.from, to: part.from + 10n }
  act()
  batch(() => {
    chosen.value = part
    axis.value = null
    inside.value = true
  })
}

// toggleInside shows the rows outside the chosen part, or hides them again.
export function toggleInside() {
  if (!chosen.value) return
  inside.value = !inside.value
}

export function toggleLengths() {
  lengths.value = !byLength.value
}

// fold hides idle periods on the axis, or shows them again.
export function fold() {
  folded.value = !folded.value
  if (folded.value) lengths.value = false
}

// wholeAxis shows the whole chosen part on the axis. If it is called again, it shows the whole time.
export function wholeAxis() {
  if (axis.value) axis.value = null
  else if (chosen.value) choose(null)
}
