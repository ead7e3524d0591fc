// What the page shows and says beside the trace: its view, its panels, and what its user has set.
import { effect, signal } from '@preact/signals'
import type { Entry } from './source'

type View = 'top' | 'tree' | 'flame' | 'table'
export const view = signal<View>('tree')
export const selected = signal(0)
export const root = signal(0)
export const lane = signal(true) // the runtime is drawn below the rows
export const form = signal<'' | 'rows' | 'calls' | 'compare'>('') // of the table
export const wide = signal<'time' | 'count' | 'lanes'>('time') // what is wide in the flame; lanes: it is in time
export const order = signal(0) // the column by which the table is sorted, from 1 on; below 0: the smallest first
export const notice = signal('')
export const details = signal(true)
export const sheet = signal(false) // on a phone the details are in sight
export const help = signal(false)
export const spoken = signal('') // in the live region

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

export const session = keep(() => sessionStorage)
const local = keep(() => localStorage)

export const jumps = signal(0) // steps of the browser's Back that no other part of the state tells apart

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

export const entry = signal<Entry | null>(null)

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
export const utc = kept('utc', '') // times are written in UTC
export const nameShare = kept('name', '') // of the width, '' for what suits the trace

// acts counts what people did, so that an answer that comes late changes nothing.
let acts = 0
export const acted = () => acts
export const act = () => ++acts

// turns gives a signal to each question, and aborts the one before.
export function turns() {
  let own = new AbortController()
  const stop = () => own.abort()
  return {
    stop,
    next: () => {
      stop()
      own = new AbortController()
      return own.signal
    }
  }
}
