// The time axis of the tree.
import { useLatest } from './ask'
import { type Axis, foldsIn } from './bars'
import { type Chart, moves } from './chart'
import * as page from './page'
import type { Pages } from './pages'
import { scroll } from './scroll'
import * as search from './search'
import type { Heat, TreeRow } from './source'
import * as time from './time'
import * as trace from './trace'

// lengthOf returns the length of the axis if it shows lengths. Even if one request is far longer than all others, the
// bars of the other requests must stay visible. A subtree has its own scale.
function lengthOf(p: Pages, requests: Heat | null): bigint {
  if (page.root.value) return p.to - p.from
  const longest = requests?.longest?.duration_nano ?? 0n,
    usual = ((requests?.p95_nano ?? 0n) * 115n) / 100n
  return !search.only.value && usual > 0n && longest > 4n * usual ? usual : longest
}

// useTreeAxis returns the axis of some pages, and lets keys and the wheel zoom and move it. The result lengths says
// whether the axis shows lengths. The function origin returns the time to subtract from the times of the row at a
// position to get times of the axis.
export function useTreeAxis(chart: Chart, p: Pages, width: number) {
  const m = trace.meta.value!,
    c = time.chosen.value
  const requests = useLatest(
    'heat',
    m.spans && !page.root.value && time.lengths.value !== false && { window: time.windowText.value, n: 1 },
    trace.pace()
  ).value
  const length = lengthOf(p, requests)
  let range = time.axis.value ?? (c && 'from' in c ? c : { from: p.from, to: p.to })
  const inSight = range.to - range.from,
    tooShort = !time.axis.value && requests && requests.requests >= 100 && inSight > 20n * length
  const lengths = (time.lengths.value ?? tooShort) ? length > 0n : false
  if (lengths) range = { from: 0n, to: length }
  // On the axis by length, the times of a row count from the beginning of its request.
  const origin = (i: number, at: TreeRow) => (lengths && (p.above(i)[0] ?? at).start_unix_nano) || 0n
  const axis: Axis = {
    ...range,
    width,
    folds: time.folded.value ? foldsIn(time.idle(), range.from, range.to) : []
  }
  chart.axis = axis

  const change = ({ from, to }: time.Period) => {
    if (lengths) {
      time.toggleLengths()
      return
    }
    if (to - from < 10n) to = from + 10n
    time.axis.value =
      (from <= p.from && to >= p.to && time.windowText.peek()) || (from <= m.first_unix_nano && to >= m.last_unix_nano)
        ? null
        : { from, to }
  }
  moves.zoom = (by, at = chart.cross.peek() ?? 0.5) => change(time.zoomed(range, by, at))
  moves.pan = by => {
    const next = time.panned(range, by)
    if (by > 0 ? next.from <= p.to : next.to >= p.from) change(next)
  }
  moves.fit = () => {
    const at = p.at(scroll.selectedAt())
    if (at && at.start_unix_nano !== null) change(time.around(at.start_unix_nano, at.took_nano || 1000n))
  }
  moves.short = () => time.leaveOutShort(inSight)
  return { axis, lengths, origin }
}
