// The trace that the page shows, and its source.
import { signal } from '@preact/signals'
import { byName, session } from './page'
import { type Meta, Problem, Server, type Source } from './source'
import { Static } from './static'
import { moment } from './text'

export const meta = signal<Meta | null>(null)

// shade returns the number of a span's color. If the trace has several services, the color stands for the service.
// Otherwise, or if byName is set, the color stands for the name of the span.
export function shade(service = '', name = ''): number {
  const m = meta.value!
  return m.services.length > 1 && !byName.value
    ? Math.max(0, m.services.indexOf(service)) % 8
    : 8 + (Object.hasOwn(m.names, name) ? Number(m.names[name]) : name.length % 10)
}

// hue returns the style with the color of a span.
export const hue = (service?: string, name?: string) => ({ background: `var(--s${shade(service, name)})` })
export let source: Source

// version returns a text that changes with each change of the trace.
export const version = () => `${meta.value!.generation} ${meta.value!.entries}`

// pace returns a text that changes when answers about the whole trace are outdated: when the generation changes,
// and each time a growing trace has grown by about a twelfth.
export function pace(): string {
  const { generation, entries, follow } = meta.value!
  return `${generation} ${follow ? Math.floor(Math.log2(entries + 1) * 8) : entries}`
}

// embedded is true if the page is shown in an editor.
export const embedded = new URLSearchParams(location.search).get('embed') === '1'

// corrected is true if the page shows times with corrected clocks.
export const corrected = new URLSearchParams(location.search).get('clock') === 'auto'

export function toggleClocks() {
  const q = new URLSearchParams(location.search)
  if (corrected) q.delete('clock')
  else q.set('clock', 'auto')
  location.search = String(q)
}

const token = 'entrace-token'

// askOthers returns the tokens of other pages with the same address in this browser: other tabs, and pages whose
// server has ended.
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

// place returns the part of the address that contains the state of the page. In a static page, place returns the
// fragment, because a browser lets a static page change only the fragment.
export const place = () => (document.getElementById('entrace-data') ? '?' + location.hash.slice(1) : location.search)

// begin opens the source. While no trace exists, it calls waits with the properties to show.
export async function begin(waits: (m: Meta) => void) {
  const data = document.getElementById('entrace-data')
  if (data) {
    // the page is one file
    source = await Static.open(data)
    meta.value = await source.ask('meta', {})
    return
  }
  const hash = new URLSearchParams(location.hash.slice(1))
  const given = hash.get('token')
  if (given) history.replaceState(null, '', location.pathname + location.search)
  const look = async (own: string) => {
    source = new Server(own, corrected ? 'auto' : '')
    const ask = () => source.ask('meta', { f: new URLSearchParams(location.search).get('f') ?? '' })
    let m = await ask()
    if (own) {
      session.set(token, own)
      tellOthers(own)
    }
    while (m.waiting) {
      waits(m)
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
}

// running reports whether a process still writes one of the files. ending says how the newest file ended.
export const running = () => !meta.value!.states.length || meta.value!.states.some(x => x.word === 'running')

export function ending(): string {
  const m = meta.value!,
    word = m.states[m.newest]?.word ?? 'ended'
  return word === 'killed' && m.timed
    ? `Killed at ${moment(m.last_unix_nano, 0)}`
    : word[0]!.toUpperCase() + word.slice(1)
}
