// The query, and what it found.
import { batch, computed, effect, signal, untracked } from '@preact/signals'
import { form, jumps, notice, order, root, selected, spoken, turns, view } from './page'
import { type Found, type Part, Problem } from './source'
import { windowText } from './time'
import { meta, source } from './trace'

export type Mode = 'mark' | 'only'
export const text = signal('') // of the query, as it is written
export const query = signal('') // the last one that could be run
export const mode = signal<Mode>('mark')
export const than = signal('') // the query with whose hits those of the query are compared
export const found = signal<Found | null>(null)
export const searching = signal(false)
export const least = signal(-1) // as many hits there are at least, while it is searching
export const problem = signal<Problem | null>(null) // of the query
export const words = signal<string[]>([]) // of the query, to be marked
export const only = computed(() => (mode.value === 'only' ? query.value : ''))

// part is what panels are about.
export const part = (): Part => ({
  q: query.value && !problem.value ? query.value : '',
  than: than.value,
  root: root.value,
  window: windowText.value
})

// otherSide names what the query is compared with; it is empty if that is all other rows.
export const otherSide = () =>
  than.value ? (meta.value!.against ? `${than.value} in ${meta.value!.against}` : than.value) : meta.value!.against

export const silent = 'The program that serves this page does not answer'
export const textOf = (e: unknown) => (e instanceof Problem ? e.message : silent)
const asking = turns()

// find counts what the query selects. Quietly it leaves what is shown until it knows better, as when
// the trace has grown.
export async function find(quietly = false): Promise<boolean> {
  const own = asking.next()
  const q = text.value.trim()
  if (!q) {
    batch(() => {
      query.value = ''
      words.value = []
      found.value = null
      problem.value = null
      searching.value = false
    })
    return false
  }
  if (!quietly)
    batch(() => {
      searching.value = true
      least.value = -1
      notice.value = ''
    })
  // What takes a while shows its first hits before.
  const early = new AbortController()
  const soon =
    quietly || windowText.value
      ? undefined
      : setTimeout(
          () =>
            source.find({ q, at: 0, first: true, window: windowText.value }, AbortSignal.any([own, early.signal])).then(
              f => {
                if (!f.known || !searching.value) return
                least.value = f.count
                if (!only.value)
                  batch(() => {
                    ran(q)
                    words.value = f.words
                  }) // what is in sight is marked
              },
              () => {}
            ),
          15
        )
  try {
    const f = await source.find({ q, at: selected.value, window: windowText.value }, own).finally(() => {
      clearTimeout(soon)
      early.abort()
    })
    batch(() => {
      ran(q)
      words.value = f.words
      found.value = f
      problem.value = null
      searching.value = false
      if (!quietly) spoken.value = f.count.toLocaleString('en-US') + ' hits'
    })
    return true
  } catch (e) {
    if (own.aborted) return false
    const wrong = e instanceof Problem ? e : new Problem(silent, 0)
    wrong.of = q
    batch(() => {
      searching.value = false
      problem.value = wrong
      spoken.value = ''
    })
    return false
  }
}

// count says which of the hits is selected.
let counting: ReturnType<typeof setTimeout> | undefined

export function count() {
  clearTimeout(counting)
  const q = query.value,
    at = selected.value
  if (!q || !at || searching.value || problem.value) return
  counting = setTimeout(
    () =>
      source.find({ q, at, window: windowText.value }).then(
        f => {
          if (q === query.peek() && at === selected.peek() && !searching.peek()) found.value = f
        },
        () => {}
      ),
    150
  )
}

// adding says that the next query comes of a click: Back takes its condition away.
let adding = false

function ran(q: string) {
  if (adding) jumps.value++
  adding = false
  query.value = q
}

// add adds a condition to the query. It is a step of Back unless something else is that.
export function add(condition: string, without = false, step = true) {
  const c = without ? `!(${condition})` : condition
  const now = text.value.trim()
  adding = step
  text.value = now ? (/[{|]/.test(now) ? `${now} | { ${c} }` : `(${now}) && ${c}`) : c
  find()
}

// tableOf shows how often each value of a field is there.
export function tableOf(field: string) {
  batch(() => {
    jumps.value++
    text.value = `${text.value.trim() || '{}'} | count() by(${field}) | sort(count desc)`
    form.value = ''
    order.value = 0
    view.value = 'table'
  })
  find()
}

// Another choice of the time has other hits.
effect(() => {
  void windowText.value
  if (text.peek().trim()) untracked(() => find(true))
})
