// How the page goes on while the trace grows.
import { batch, signal } from '@preact/signals'
import { prints } from './address'
import { act, root, selected, tell } from './page'
import { depth, earlier, going, opened, toggled, wanted } from './selection'
import type { Meta } from './source'
import { axis, chosen } from './time'
import { meta, rowsKnown } from './trace'

export const paused = signal(false)
export const fresh = signal(0) // rows that came since it was paused, or since the end was in sight

// grow takes in what the files are by now. If the rows have got other numbers, what was selected and
// open is given up.
export function grow(m: Meta) {
  const was = meta.value!,
    news = m.files.filter(f => !was.files.some(o => o.name === f.name)).map(f => f.name)
  batch(() => {
    meta.value = { ...m, same: was.same }
    rowsKnown.value = m.rows
    if (m.generation !== was.generation) {
      act()
      going.stop()
      prints.clear()
      selected.value = root.value = depth.value = 0
      toggled.value = []
      opened.value = false
      axis.value = chosen.value = earlier.before = earlier.whole = null
      wanted.value = null
    }
    prints.add(m.fingerprint)
  })
  if (news.length && (m.generation !== was.generation || m.files.length > was.files.length))
    tell(`The page goes on with ${news.join(', ')}`)
  else if (m.generation !== was.generation) tell('The files are others by now, and the page shows them')
}

export const resume = signal<(() => void) | null>(null)
