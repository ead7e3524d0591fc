// The query and its result.
import { batch, computed, effect, signal, untracked } from '@preact/signals'
import { form, jumps, notice, order, root, selected, spoken, turns, view } from './page'
import { type Found, type Part, Problem } from './source'
import { windowText } from './time'
import { meta, source } from './trace'

export type Mode = 'mark' | 'only'
export const text = signal('') // the query as it is in the input
export const query = signal('') // the last query that was valid
export const mode = signal<Mode>('mark')
export const than = signal('') // a second query, whose hits are compared with the hits of the query
export const found = signal<Found | null>(null)
export const searching = signal(false)
export const least = signal(-1) // a lower bound of the number of hits during the search
export const problem = signal<Problem | null>(null) // the error of the query
export const words = signal<string[]>([]) // the words of the query that are marked in rows
export const only = computed(() => (mode.value === 'only' ? query.value : ''))

// part returns the part of the trace that the panels describe.
export const part = (): Part => ({
  q: query.value && !problem.value ? query.value : '',
  than: than.value,
  root: root.value,
  window: windowText.value
})

// otherSide returns the name of the other side of a comparison, or '' if the other side is all other rows.
export const otherSide = () =>
  than.value ? (meta.value!.against ? `${than.value} in ${meta.value!.against}` : than.value) : meta.value!.against

export const silent = 'The program that serves this page does not answer'
export const textOf = (e: unknown) => (e instanceof Problem ? e.message : silent)
const asking = turns()

// find counts the rows that the query selects. With quietly, the page keeps the old hits until the answer arrives,
// for example when the trace has grown.
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
  // While a slow search runs, show its first hits.
  const early = new AbortController()
  const soon =
    quietly || windowText.value
      ? undefined
      : setTimeout(
          () =>
            source
              .ask('find', { q, at: 0, first: true, window: windowText.value }, AbortSignal.any([own, early.signal]))
              .then(
                f => {
                  if (!f.known || !searching.value) return
                  least.value = f.count
                  if (!only.value)
                    batch(() => {
                      ran(q)
                      words.value = f.words
                    }) // mark the visible hits
                },
                () => {}
              ),
          15
        )
  try {
    const f = await source.ask('find', { q, at: selected.value, window: windowText.value }, own).finally(() => {
      clearTimeout(soon)
      early.abort()
    })
    batch(() => {
      ran(q)
      words.value = f.words
      found.value = f
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

// look replaces the query.
export function look(q: string) {
  text.value = q
  return find()
}

// count requests the position of the selected row among the hits.
let counting: ReturnType<typeof setTimeout> | undefined

export function count() {
  clearTimeout(counting)
  const q = query.value,
    at = selected.value
  if (!q || !at || searching.value || problem.value) return
  counting = setTimeout(
    () =>
      source.ask('find', { q, at, window: windowText.value }).then(
        f => {
          if (q === query.peek() && at === selected.peek() && !searching.peek()) found.value = f
        },
        () => {}
      ),
    150
  )
}

// adding is true if a click caused the next query. The Back button then removes the added condition.
let adding = false

// ran makes a query that the server has answered the current one.
function ran(q: string) {
  if (adding) jumps.value++
  adding = false
  query.value = q
  problem.value = null
}

// add adds a condition to the query. If step is true, the Back button removes the condition.
export function add(condition: string, without = false, step = true) {
  const c = without ? `!(${condition})` : condition
  const now = text.value.trim()
  adding = step
  text.value = now ? (/[{|]/.test(now) ? `${now} | { ${c} }` : `(${now}) && ${c}`) : c
  find()
}

// tableOf shows a table with the number of rows for each value of a field.
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

// Another part of the time has other hits.
effect(() => {
  void windowText.value
  if (text.peek().trim()) untracked(() => find(true))
})
