// Updates of the page while the trace grows.
import { batch, signal } from '@preact/signals'
import { prints } from './address'
import { act, root, selected, tell } from './page'
import { depth, earlier, going, opened, toggled, wanted } from './selection'
import type { Meta } from './source'
import { axis, chosen } from './time'
import { meta } from './trace'

export const paused = signal(false)
export const fresh = signal(0) // the number of new rows since the pause began, or since the end was last visible

// grow updates the page to the current state of the files. If rows got new numbers, the page resets the selected
// and the open rows.
export function grow(m: Meta) {
  const was = meta.value!,
    news = m.files.filter(f => !was.files.some(o => o.name === f.name)).map(f => f.name)
  batch(() => {
    meta.value = { ...m, same: was.same }
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
    tell(`The page continues with ${news.join(', ')}`)
  else if (m.generation !== was.generation) tell('The files were replaced, and the page shows the new ones')
}

// resume ends a pause. The page component sets it.
export const resume = signal<(() => void) | null>(null)
