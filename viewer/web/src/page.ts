// The state of the page that does not depend on the trace: its view, panels, messages, and the user's settings.
import { effect, signal } from '@preact/signals'
import type { Entry } from './source'

type View = 'top' | 'tree' | 'flame' | 'table' | 'logs'
export const view = signal<View>('tree')
export const selected = signal(0)
export const root = signal(0)
export const lane = signal(true) // whether the runtime is drawn below the rows
export const form = signal<'' | 'rows' | 'calls' | 'compare'>('') // the kind of table
export const level = signal<'' | 'info' | 'warn' | 'error'>('') // the lowest level of the log records that are listed
export const wide = signal<'time' | 'up' | 'count' | 'lanes'>('time') // what the width in the flame means; lanes: spans over time
export const order = signal(0) // the number of the column that sorts the table, from 1 on; below 0: smallest values first
export const notice = signal('')
export const details = signal(true)
export const sheet = signal(false) // whether the details are shown on a phone
export const help = signal(false)
export const spoken = signal('') // the text of the live region, for screen readers

// A browser may refuse to store data for an embedded page.
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
      /* the choice will be lost when the page is reloaded */
    }
  }
})

export const session = keep(() => sessionStorage)
const local = keep(() => localStorage)

export const jumps = signal(0) // counts Back steps of the browser that differ in no other part of the state

// tell shows a text for a few seconds.
export function tell(text: string) {
  notice.value = text
  setTimeout(() => {
    if (notice.value === text) notice.value = ''
  }, 8000)
}

// copy copies a text to the clipboard. The result says whether it succeeded.
export const copy = (text: string, done = 'Copied', not = 'The browser did not allow copying') =>
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

// kept returns a signal for a choice of the user, which is stored and survives a reload.
export function kept(name: string, otherwise: string) {
  const key = 'entrace-' + name,
    s = signal(local.get(key) ?? otherwise)
  effect(() => local.set(key, s.value !== otherwise ? s.value : ''))
  return s
}

export const facets = kept('facets', '1') // whether facets are shown if there is space
export const facetsOver = signal(false) // whether facets cover the rows if there is no space beside them
export const tab = kept('tab', 'why') // the tab of the details
export const theme = kept('theme', 'auto')
export const byName = kept('by-name', '') // colors stand for names of spans even if the trace has several services
export const utc = kept('utc', '') // times are written in UTC
export const nameShare = kept('name', '') // the share of the width that names have; '' for a share that suits the trace

// acts counts the actions of the user. An answer to a request of an older action must not change the page.
let acts = 0
export const acted = () => acts
export const act = () => ++acts

// turns provides an abort signal for each request, and aborts the previous request.
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
