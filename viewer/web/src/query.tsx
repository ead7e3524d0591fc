// The input of the query, with completions.
import { batch, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { Icon, IconButton } from './icons'
import * as page from './page'
import { Choose } from './parts'
import * as search from './search'
import * as selection from './selection'
import type { Item } from './source'
import { count, painted, plain } from './text'
import * as trace from './trace'

// Try is a button with a query that the user may have meant. A click replaces the current query.
const Try = ({ query }: { query: string }) => (
  <button
    class="btn s"
    onClick={() => {
      search.look(query)
      document.getElementById('query')!.focus()
    }}>
    Find <code class="mono">{plain(query)}</code>
  </button>
)

const bytes = (text: string) => new TextEncoder().encode(text)

export function Query() {
  const input = useRef<HTMLInputElement>(null),
    paint = useRef<HTMLPreElement>(null)
  const follow = () => {
    paint.current!.style.transform = `translateX(${-input.current!.scrollLeft}px)`
  }
  useEffect(follow)
  const items = useSignal<Item[]>([]),
    from = useSignal(0),
    at = useSignal(-1),
    open = useSignal(false)
  const of = useRef('') // the text to which the completions belong
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined),
    asked = useRef<AbortController>(undefined)

  const suggest = async (always: boolean) => {
    const el = input.current!
    const place = el.selectionStart ?? el.value.length
    asked.current?.abort()
    const own = new AbortController()
    asked.current = own
    const text = el.value
    const before = el.value.slice(0, place)
    if (!always && !/([.<>~!"\w]|[=<>~] *|[}|] +)$/.test(before)) {
      open.value = false
      return
    }
    try {
      const r = await trace.source.ask('complete', { q: text, at: bytes(before).length }, own.signal)
      const start = new TextDecoder().decode(bytes(text).slice(0, r.from)).length
      const word = before.slice(start)
      items.value = r.items.filter(i => i.text !== word)
      from.value = start
      of.current = text
      at.value = always ? 0 : -1
      open.value = items.value.length > 0 && document.activeElement === el
    } catch {
      open.value = false
    }
  }
  // Completions for an older text must not replace newer text.
  const offers = () => open.value && of.current === input.current!.value
  const accept = (item: Item) => {
    const el = input.current!
    if (!offers()) return
    const place = el.selectionStart ?? el.value.length
    const rest = el.value.slice(place)
    const next =
      el.value.slice(0, from.value) + item.text + (item.kind === 'value' || item.kind === 'operator' ? ' ' : '')
    el.value = search.text.value = next + rest.replace(/^"/, item.text.endsWith('"') ? '' : '"')
    open.value = false
    el.focus()
    el.setSelectionRange(next.length, next.length)
    search.find()
  }
  const leave = () => {
    input.current!.blur()
    ;(
      (document.querySelector('.rows [tabindex="0"]') as HTMLElement | null) ??
      document.querySelector<HTMLElement>('.rows')
    )?.focus()
  }
  const key = async (e: KeyboardEvent) => {
    if (e.isComposing) return
    if (offers() && (e.key === 'ArrowDown' || e.key === 'ArrowUp')) {
      e.preventDefault()
      const n = items.value.length
      at.value = (at.value + (e.key === 'ArrowDown' ? 1 : n + (at.value < 0 ? 0 : -1)) + n) % n
    } else if (offers() && at.value >= 0 && (e.key === 'Enter' || e.key === 'Tab')) {
      e.preventDefault()
      accept(items.value[at.value]!)
    } else if (open.value && e.key === 'Tab' && !e.shiftKey) {
      e.preventDefault()
      clearTimeout(timer.current)
      if (!offers()) await suggest(false) // the visible completions belong to an older text
      accept(items.value[0]!)
    } else if (e.key === 'Enter') {
      e.preventDefault()
      open.value = false
      clearTimeout(timer.current)
      leave() // so that the keys n and N go to other hits
      search.find().then(ok => {
        if (ok && page.view.value === 'logs') return // the list has the hits already
        if (ok && search.found.value?.count) selection.next(e.shiftKey ? 'prev' : 'next')
        else {
          if (search.problem.value?.command)
            batch(() => {
              page.form.value = ''
              page.view.value = 'table'
            })
          input.current?.focus()
        }
      })
    } else if (e.key === 'Escape') {
      e.stopPropagation()
      if (open.value) open.value = false
      else leave()
    } else if (e.key === ' ' && e.ctrlKey) {
      e.preventDefault()
      suggest(true)
    }
  }
  useEffect(() => {
    if (at.value >= 0) document.getElementById('c' + at.value)?.scrollIntoView({ block: 'nearest' })
  }, [at.value])
  const f = search.found.value,
    p = search.problem.value
  const position = p && p.pos >= 0 ? new TextDecoder().decode(bytes(p.of).slice(0, p.pos)).length + 1 : 0
  const tabled = page.view.value === 'table' && !page.form.value && !!p?.command // the query computes the table that is shown
  return (
    <search class="qbar bar under wrap rel">
      <div class={'qin bar grow rel' + (p && !tabled ? ' wrong' : '')}>
        <Icon name="find" />
        <div class="qt rel grow tall cut">
          <pre ref={paint} aria-hidden>
            {painted(search.text.value, p?.of === search.text.value.trim() ? position : 0).map(t => (
              <span class={`t-${t.kind}${t.wrong ? ' bad' : ''}`}>{t.text}</span>
            ))}
          </pre>
          <input
            ref={input}
            id="query"
            onScroll={follow}
            type="text"
            spellcheck={false}
            autocomplete="off"
            autocapitalize="off"
            role="combobox"
            aria-label="Query"
            aria-expanded={open.value}
            aria-controls="completion"
            aria-activedescendant={open.value && at.value >= 0 ? 'c' + at.value : undefined}
            aria-invalid={!!p}
            aria-describedby={p ? 'wrong' : undefined}
            placeholder="Find: words, level >= warn, .user = &quot;ada&quot;, { name = &quot;GET /cart&quot; } >> { span:failed }"
            value={search.text.value}
            onInput={e => {
              search.text.value = e.currentTarget.value
              clearTimeout(timer.current)
              timer.current = setTimeout(() => {
                search.find()
                suggest(false)
              }, 60)
            }}
            onKeyDown={key}
            onBlur={() =>
              setTimeout(() => {
                open.value = false
              }, 150)
            }
          />
        </div>
        {search.text.value && (
          <span class="hits soft nowrap" aria-hidden>
            {p ? (
              ''
            ) : search.searching.value ? (
              search.least.value > 0 ? (
                <>
                  at least <b>{count(search.least.value)}</b> {search.least.value === 1 ? 'hit' : 'hits'}
                </>
              ) : (
                'searching…'
              )
            ) : f ? (
              <>
                {f.index > 0 && (
                  <>
                    <b>{count(f.index)}</b> of{' '}
                  </>
                )}
                <b>{count(f.count)}</b> {f.count === 1 ? 'hit' : 'hits'}
                {f.outside > 0 && <>, {count(f.outside)} outside</>}
              </>
            ) : (
              ''
            )}
          </span>
        )}
        {search.text.value && (
          <IconButton
            icon="close"
            label="Clear the query"
            onClick={() => {
              search.look('')
              selection.setMode('mark')
              input.current!.focus()
            }}
          />
        )}
        {open.value && (
          <ul class="pop raised card abs comp scroll" id="completion" role="listbox" aria-label="Completions">
            {items.value.map((i, n) => (
              <li
                id={'c' + n}
                class="grid center"
                role="option"
                aria-selected={n === at.value}
                onMouseDown={e => {
                  e.preventDefault()
                  accept(i)
                }}>
                <span class="mono el">{plain(i.text)}</span>
                <span class="q">{i.kind}</span>
                {i.count ? <span class="q n">{count(i.count)}</span> : null}
              </li>
            ))}
          </ul>
        )}
      </div>
      {(
        [
          ['prev', 'Previous hit', 'N', 'up'],
          ['next', 'Next hit', 'n', 'down']
        ] as const
      ).map(([dir, label, key, icon]) => (
        <IconButton
          icon={icon}
          label={label}
          title={`${label} (${key})`}
          disabled={!f?.count}
          onClick={() => selection.next(dir)}
        />
      ))}
      <Choose
        label="Effect of the query"
        now={search.mode.value}
        to={selection.setMode}
        of={[
          ['mark', 'Mark'],
          ['only', 'Only hits']
        ]}
      />
      {trace.meta.value!.static === undefined && (
        <button
          class="btn s no-n"
          disabled={!search.query.value || !!p}
          title={
            search.query.value
              ? 'Compares the next query with this one'
              : 'Write a query first, such as { start >= "2026-11-27T12:00:00Z" }'
          }
          onClick={selection.compareWith}>
          Compare with
        </button>
      )}
      {search.than.value && (
        <span class="than soft inline el">
          against <code class="mono el">{plain(search.than.value)}</code>{' '}
          <IconButton
            icon="close"
            label="Compare with all others"
            onClick={() => {
              search.than.value = ''
              if (page.form.value === 'compare') page.form.value = ''
            }}
          />
        </span>
      )}
      {p && !tabled && (
        <div class="hint err" id="wrong" role="alert">
          {plain(p.message)}
          {position ? `, at ${position}` : ''}
          {p.hint && ': ' + plain(p.hint)} {p.attempt && <Try query={p.attempt} />}
          {p.command && (
            <div class="cmd bar wrap">
              <button
                class="btn s"
                onClick={() => {
                  page.form.value = ''
                  page.view.value = 'table'
                }}>
                Show the table
              </button>
              <code class="mono">{plain(p.command)}</code>{' '}
              <button class="btn s" onClick={() => page.copy(p.command)}>
                Copy the command
              </button>
            </div>
          )}
        </div>
      )}
      {!p &&
        f?.hints.map(h => (
          <div class="hint q">
            {plain(h.text)} {h.query && <Try query={h.query} />}
          </div>
        ))}
    </search>
  )
}
