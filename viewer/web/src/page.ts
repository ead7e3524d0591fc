// The state of the page itself, apart from the trace: its view, its panels, messages, and the settings of the user.
import { effect, signal } from '@preact/signals'
import type { Entry } from './source'

type View = 'top' | 'tree' | 'flame' | 'table'
export const view = signal<View>('tree')
export const selected = signal(0)
export const root = signal(0)
export const lane = signal(true) // the runtime is drawn below the rows
export const form = signal<'' | 'rows' | 'calls' | 'compare'>('') // the kind of table
export const wide = signal<'time' | 'up' | 'count' | 'lanes'>('time') // the width in the flame; lanes: spans in their time
export const order = signal(0) // the column by which the table is sorted, from 1 on; below 0: the smallest first
export const notice = signal('')
export const details = signal(true)
export const sheet = signal(false) // on a phone the details are in sight
export const help = signal(false)
export const spoken = signal('') // the text of the live region

// A browser may refuse to store data for a page inside another page.
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
      /* the choice is lost at a reload */
    }
  }
})

export const session = keep(() => sessionStorage)
const local = keep(() => localStorage)

export const jumps = signal(0) // counts steps of the browser's Back that differ in no other part of the state

// tell shows a text for a while.
export function tell(text: string) {
  notice.value = text
  setTimeout(() => {
    if (notice.value === text) notice.value = ''
  }, 8000)
}

// copy copies a text to the clipboard. The result says whether this worked.
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

// kept returns a signal with a choice of the user, which survives a reload.
export function kept(name: string, otherwise: string) {
  const key = 'entrace-' + name,
    s = signal(local.get(key) ?? otherwise)
  effect(() => local.set(key, s.value !== otherwise ? s.value : ''))
  return s
}

export const facets = kept('facets', '1') // facets are shown if there is room
export const facetsOver = signal(false) // facets lie over the rows if there is no room
export const tab = kept('tab', 'why') // the tab of the details
export const theme = kept('theme', 'auto')
export const byName = kept('by-name', '') // the colors stand for names of spans, also if there are several services
export const utc = kept('utc', '') // times are written in UTC
export const nameShare = kept('name', '') // the share of the width; '' for one that suits the trace

// acts counts the actions of the user, so that late answers change nothing.
let acts = 0
export const acted = () => acts
export const act = () => ++acts

// turns provides an abort signal for each request, and aborts the request before.
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
