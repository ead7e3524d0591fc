// The chosen part of the time, and the part that is drawn.
import { batch, computed, signal } from '@preact/signals'
import { act } from './page'
import type { Strip } from './source'

export interface Period {
  from: bigint
  to: bigint
}

export const axis = signal<Period | null>(null) // the part of the time that is drawn; null: all of what is chosen
export const chosen = signal<Period | { last: bigint } | null>(null) // the part of the time whose rows are shown; null: all of it
export const inside = signal(true) // rows outside of what is chosen are left out
export const outside = signal(0) // outermost rows that are
export const shortest = signal(0n) // spans that took less are left out; 0: none
export const folded = signal(false) // long times without anything take no room on the axis
// Bars begin where their request does, to compare lengths; null: if the requests are too short to be seen otherwise.
export const lengths = signal<boolean | null>(null)
export const byLength = signal(false) // as they are drawn
export const strip = signal<Strip | null>(null)

// windowText is what is chosen of the time, as the server takes it; empty if rows outside are shown, too.
export const chosenText = () =>
  !chosen.value ? '' : 'last' in chosen.value ? 'last:' + chosen.value.last : `${chosen.value.from},${chosen.value.to}`

export const windowText = computed(() => (inside.value ? chosenText() : ''))

// idle are the long times in which nothing begins or ends.
export const idle = (): Period[] =>
  (strip.value?.idle ?? []).map(([from, to]) => ({ from: BigInt(from), to: BigInt(to) }))

// leaveOutShort leaves out the spans that took less than a hundredth of a time, or shows them again.
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

// choose leaves out the rows that are outside of a part of the time; null shows all.
export function choose(part: typeof chosen.value) {
  if (part && 'from' in part && part.to - part.from < 10n) part = { from: part.from, to: part.from + 10n }
  act()
  batch(() => {
    chosen.value = part
    axis.value = null
    inside.value = true
  })
}

// toggleInside shows what lies outside, too, or leaves it out again.
export function toggleInside() {
  if (!chosen.value) return
  inside.value = !inside.value
}

export function toggleLengths() {
  lengths.value = !byLength.value
}

// fold leaves out long times without anything, or shows them again.
export function fold() {
  folded.value = !folded.value
  if (folded.value) lengths.value = false
}

// wholeAxis shows all of what is chosen, and then all of the time.
export function wholeAxis() {
  if (axis.value) axis.value = null
  else if (chosen.value) choose(null)
}
