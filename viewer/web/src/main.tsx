// The page that shows a trace.

import { effect, type Signal, signal, useSignal } from '@preact/signals'
import { type ComponentChildren, render } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import * as address from './address'
import type { Run } from './answers'
import { flip, paced, set } from './ask'
import { drawn, moves } from './chart'
import { Details } from './details'
import { Facets } from './facets'
import { FlameView } from './flame'
import * as follow from './follow'
import { Icon } from './icons'
import { Overview, title } from './overview'
import * as page from './page'
import { Choose } from './parts'
import { Query } from './query'
import { phone } from './row'
import { hasRuntime } from './runtime'
import { scroll } from './scroll'
import * as search from './search'
import * as selection from './selection'
import { Problem } from './source'
import { Chosen, Strip } from './strip'
import { TableView } from './table'
import { count, day, duration, many, plain, written, zone } from './text'
import * as time from './time'
import * as trace from './trace'
import { Tree } from './tree'

declare global {
  interface Window {
    __entrace?: typeof drawn
  }
}

// nextTheme changes the theme. The order is: the system's theme, the opposite theme, the theme that the system has as
// an explicit choice, and again the system's theme.
function nextTheme() {
  const dark = matchMedia('(prefers-color-scheme: dark)').matches,
    other = dark ? 'light' : 'dark',
    same = dark ? 'dark' : 'light'
  page.theme.value = page.theme.value === 'auto' ? other : page.theme.value === other ? same : 'auto'
}

const views = ['top', 'tree', 'flame', 'table', 'logs'] as const,
  viewNames = ['Overview', 'Tree', 'Flame', 'Table', 'Logs']
const wide = signal(true) // whether there is space for facets
const withFacets = () => page.view.value === 'tree' && (wide.value ? page.facets.value === '1' : page.facetsOver.value)

function App() {
  const m = trace.meta.value!
  return (
    <>
      <a
        class="skip abs"
        href="#main"
        onClick={e => {
          e.preventDefault()
          document.querySelector<HTMLElement>(page.view.value === 'tree' ? '.rows' : '#main')?.focus()
        }}>
        To the rows
      </a>
      <header class={'top bar under' + (trace.embedded ? ' emb' : '')}>
        <h1 class="sr abs cut">{plain(title())}</h1>
        <span class="brand bar">
          <svg viewBox="0 0 16 16" aria-hidden>
            <path d="M1 2h9v3H1zM4 6.500h8v3H4zM7 11h8v3H7z" fill="currentColor" />
          </svg>
          <span>entrace</span>
        </span>
        <span class="file el" title={m.files.map(f => plain(f.name)).join('\n')}>
          {plain(title())} {m.against && <span class="q">against {plain(m.against)} </span>}
          <button
            class={'chip rim' + (m.state.includes('killed') ? ' err' : '')}
            title={[
              'Go to the last rows',
              `${count(m.entries)} entries`,
              ...m.states.map((x, i) => plain(`${m.files[i]?.name} ${x.text}`))
            ].join('\n')}
            onClick={() => {
              page.view.value = 'tree'
              requestAnimationFrame(() => scroll.end(true))
            }}>
            {plain(m.state.split(' (', 1)[0]!)}
          </button>
        </span>
        <nav class="tabs flex tall" role="tablist" aria-label="Views">
          {views.map((v, i) => (
            <button role="tab" aria-selected={page.view.value === v} onClick={set(page.view, v)}>
              {viewNames[i]}
            </button>
          ))}
        </nav>
        <span class="grow" />
        {m.follow && (
          <button
            class={'ib live' + (follow.paused.value || !trace.running() ? '' : ' on')}
            aria-pressed={!follow.paused.value}
            onClick={pause}>
            <i class="dotl" />
            {follow.paused.value ? (
              <>Paused{follow.fresh.value > 0 && `, ${count(follow.fresh.value)} new`}</>
            ) : trace.running() ? (
              'Live'
            ) : (
              trace.ending()
            )}
          </button>
        )}
        {(m.formats?.length ?? 0) > 0 && (
          <select
            class="ib no-n"
            aria-label="Save as"
            title="Save the selected rows: the hits, or this subtree"
            value=""
            onChange={e => {
              const f = m.formats.find(f => f.name === e.currentTarget.value)
              e.currentTarget.value = ''
              if (f)
                page.download('part' + f.extension, trace.source.file('save', { ...search.part(), format: f.name }))
            }}>
            <option value="" disabled hidden>
              Save as
            </option>
            {m.formats.map(f => (
              <option value={f.name}>
                {f.name}: {f.text}
              </option>
            ))}
          </select>
        )}
        <button class="ib" aria-label="Copy link" title="Copy link (y)" onClick={copyLink}>
          <Icon name="link" /> <span class="no-n">Copy link</span>
        </button>
        {(page.utc.value || zone(m.last_unix_nano ?? 0n) !== 'UTC') && (
          <button
            class="ib no-n"
            title="Show times in UTC, or in the time zone of this browser"
            onClick={set(page.utc, page.utc.value ? '' : '1')}>
            {zone(m.last_unix_nano ?? 0n)}
          </button>
        )}
        <Legend />
        <button
          class="ib"
          aria-label={'Theme: ' + page.theme.value}
          title={'Theme: ' + page.theme.value}
          onClick={nextTheme}>
          ◐
        </button>
        <button class="ib" aria-label="Keys" title="Keys (?)" onClick={set(page.help, true)}>
          ?
        </button>
      </header>
      <Query />
      <section aria-label="Notices">
        {m.static !== undefined && (
          <Notice>
            A copy of{' '}
            {m.static ? (
              <>
                the rows of <code class="mono">{plain(m.static)}</code>
              </>
            ) : (
              'the trace'
            )}
            , as exported. It finds words; queries need 'entrace view'.
          </Notice>
        )}
        {m.notices.map(n => (
          <Notice>{plain(n)}</Notice>
        ))}
        {address.other.value && (
          <Notice of={address.other}>
            The link is to another file, {address.other.value}; this one is {m.fingerprint}. The query was kept.
          </Notice>
        )}
        {page.notice.value && <Notice of={page.notice}>{plain(page.notice.value)}</Notice>}
      </section>
      {m.timed && (
        <section aria-label="When">
          <Strip />
        </section>
      )}
      <main
        id="main"
        tabIndex={-1}
        class={
          'body' +
          (page.details.value && page.view.value === 'tree' ? '' : ' nod') +
          (withFacets() ? (wide.value ? ' fc' : ' fo') : '') +
          (page.sheet.value ? ' sheet' : '')
        }>
        {withFacets() && <Facets />}
        <div class="centre">
          {page.view.value === 'tree' ? (
            <Tools />
          ) : (
            m.timed && (
              <div class="tool">
                <span class="grow" />
                <Chosen />
              </div>
            )
          )}
          {
            { top: <Overview />, tree: <Tree />, flame: <FlameView />, table: <TableView />, logs: <TableView /> }[
              page.view.value
            ]
          }
        </div>
        {page.view.value === 'tree' && page.details.value && (
          <>
            <div class="scrim" onClick={set(page.sheet, false)} />
            <Details />
          </>
        )}
      </main>
      {!trace.embedded && (
        <footer class="stat bar note sunk over">
          <span>
            <kbd>/</kbd> query
          </span>
          <span>
            <kbd>e</kbd> next error
          </span>
          <span>
            <kbd>double click</kbd> only this request
          </span>
          <span>
            <kbd>?</kbd> keys
          </span>
        </footer>
      )}
      <div class="sr abs cut" role="status" aria-live="polite">
        {page.spoken.value}
      </div>
      {page.help.value && <Keys />}
    </>
  )
}

// Notice shows a message. If the message is about a signal, the user can dismiss it.
const Notice = ({ of, children }: { of?: Signal<string>; children: ComponentChildren }) => (
  <div class="notice under" role="status">
    {children}{' '}
    {of && (
      <button class="lk" onClick={set(of, '')}>
        Dismiss
      </button>
    )}
  </div>
)

// Runs lets the user choose the recording that the page shows, and a recording to compare it with.
function Runs({ runs }: { runs: Run[] }) {
  const against = useSignal('')
  return (
    <div class="runs abs scroll">
      <h2>Choose a recording</h2>
      {runs.map(r => (
        <p>
          <button class="lk" onClick={() => trace.source.choose(r.name, against.value)}>
            {plain(r.name)}
          </button>{' '}
          {plain(r.text)}{' '}
          <button class="btn s" aria-pressed={against.value === r.name} onClick={set(against, r.name)}>
            compare the next recording with this
          </button>
        </p>
      ))}
    </div>
  )
}

function Tools() {
  const levels = [0, 1, 2, 3, 5, 9]
  return (
    <div class="tool">
      {page.root.value ? (
        <span class="crumb soft el">
          <button class="lk" onClick={() => selection.subtree(0)}>
            Whole file
          </button>{' '}
          › {plain(selection.rootName.value)}
        </span>
      ) : (
        <span class="crumb soft">Whole file</span>
      )}
      <span class="grow" />
      <Chosen />
      <Pills />
      <label class="q">
        Open{' '}
        <select
          aria-label="Open levels"
          value={selection.toggled.value.length ? 'some' : String(selection.depth.value)}
          onChange={e => {
            const what = e.currentTarget.value
            if (what === 'hits') selection.openToHits()
            else selection.open(Number(what))
          }}>
          {selection.toggled.value.length > 0 && <option value="some">some rows</option>}
          {levels.map(n => (
            <option value={n}>{n ? many(n, 'level') : 'no row'}</option>
          ))}
          <option value={selection.maxDepth}>all rows</option>
          <option value="hits" disabled={!search.query.value}>
            to the hits
          </option>
        </select>
      </label>
      <button
        class="btn s"
        aria-pressed={withFacets()}
        onClick={() => {
          if (wide.value) page.facets.value = page.facets.value === '1' ? '0' : '1'
          else page.facetsOver.value = !page.facetsOver.value
        }}>
        Facets
      </button>
      <button class="btn s no-n" aria-pressed={page.details.value} onClick={flip(page.details)}>
        Details
      </button>
    </div>
  )
}

const requests = '{ parent = nil }',
  errors = '{ span:failed || (level >= error && entry:role != event) }',
  open = '{ span:open }'

// Legend says what the colors of spans stand for.
function Legend() {
  const m = trace.meta.value!,
    several = m.services.length > 1
  return (
    <details
      class="legend rel no-n"
      onFocusOut={e => {
        if (!e.currentTarget.contains(e.relatedTarget as Node | null)) e.currentTarget.open = false
      }}>
      <summary class="ib" title="Meaning of the colors of spans">
        Colors
      </summary>
      <div class="pop raised card abs scroll" tabIndex={-1}>
        {several && (
          <Choose
            label="Meaning of the colors"
            now={page.byName.value}
            to={id => {
              page.byName.value = id
            }}
            of={[
              ['', 'Services'],
              ['1', 'Names']
            ]}
          />
        )}
        <ul>
          {(several && !page.byName.value ? m.services : Object.keys(m.names)).map(n => (
            <li class="el">
              <i class="hue" style={trace.hue(n, n)} /> {plain(n) || '(no name)'}
            </li>
          ))}
        </ul>
      </div>
    </details>
  )
}

// Pills are buttons for frequent queries.
function Pills() {
  const is = (q: string) => search.query.value === q && search.mode.value === 'only'
  const pill = (q: string, label: string) => (
    <button
      class="btn s no-n"
      aria-pressed={is(q)}
      onClick={() => {
        const off = is(q)
        search.look(off ? '' : q).then(ok => (ok || off) && selection.setMode(off ? 'mark' : 'only'))
      }}>
      {label}
    </button>
  )
  return (
    <>
      {trace.meta.value!.static === undefined && pill(requests, 'Requests')}
      {pill(errors, 'Errors')}
      {pill(open, 'Never ended')}
      {trace.meta.value!.spans && (
        <button
          class="btn s no-n"
          aria-pressed={time.byLength.value}
          title="Align bars at the start of their request, to compare durations (b)"
          onClick={time.toggleLengths}>
          By length
        </button>
      )}
      {trace.meta.value!.timed && (
        <button
          class="btn s no-n"
          aria-pressed={selection.withPath.value}
          title="What the request of the selected row waited for: measured with Go's execution trace if the file has one, otherwise inferred from times (c)"
          onClick={flip(selection.withPath)}>
          Critical path
          {selection.path.value &&
            ` ${duration(selection.path.value.length)}, ${selection.path.value.measured ? 'measured' : 'inferred'}`}
        </button>
      )}
      {hasRuntime.value && (
        <button
          class="btn s no-n"
          aria-pressed={page.lane.value && !time.byLength.value}
          onClick={() => {
            page.lane.value = time.byLength.value || !page.lane.value
            if (page.lane.value) time.lengths.value = false // the lane is on an axis of time
          }}>
          GC and runtime
        </button>
      )}
      {time.shortest.value > 0n && (
        <button class="btn s" aria-pressed title="Shorter spans are hidden (t)" onClick={() => time.leaveOutShort(0n)}>
          From {duration(time.shortest.value)} on
        </button>
      )}
    </>
  )
}

const keys: [string, [string, string][]][] = [
  [
    'Rows',
    [
      ['↓ j, ↑ k', 'next, previous'],
      ['→ l, ← h', 'open; close, or go to the row above'],
      ['g, G', 'first, last'],
      ['Enter', 'details'],
      ['E', 'open one more level'],
      ['x', 'open to the hits'],
      ['r', 'only this subtree'],
      ['Esc', 'the whole file again']
    ]
  ],
  [
    'Find',
    [
      ['/', 'query'],
      ['n, N', 'next, previous hit'],
      ['e', 'next error'],
      ['u', 'next unfinished span'],
      ['Ctrl Space', 'suggestions']
    ]
  ],
  [
    'Time and more',
    [
      ['w, s', 'zoom in, zoom out'],
      ['a, d', 'pan left, pan right'],
      ['f', 'fit to this row'],
      ['double click', 'only this request'],
      ['0', 'the whole time'],
      ['drag', 'choose a part of the time'],
      ['i', 'show rows outside, too'],
      ['z', 'fold idle times'],
      ['t', 'hide short spans'],
      ['c', 'critical path'],
      ['b', 'bars by length or by time'],
      ['Ctrl wheel', 'zoom in, zoom out'],
      ['Shift wheel', 'pan left, pan right'],
      ['1, 2, 3, 4, 5', viewNames.join(', ')],
      [']', 'details'],
      ['y', 'copy link'],
      ['Space', 'pause']
    ]
  ]
]

function Keys() {
  const el = useRef<HTMLDialogElement>(null),
    m = trace.meta.value!
  useEffect(() => {
    el.current!.showModal()
  }, [])
  return (
    <dialog
      ref={el}
      aria-label="Keys"
      onClose={set(page.help, false)}
      onClick={e => {
        if (e.target === el.current) el.current!.close()
      }}>
      <h2>Keys</h2>
      <div class="keys grid">
        {keys.map(([name, list]) => (
          <div>
            <h3>{name}</h3>
            {list.map(([k, what]) => (
              <p>
                <span>{what}</span>
                <kbd>{k}</kbd>
              </p>
            ))}
          </div>
        ))}
      </div>
      <h2>Signs</h2>
      <p class="q">
        A solid bar is a span without spans below it; a light bar has some. Hatched: never ended. Red end: failed. Marks
        on a bar are log records: a triangle is a warning or an error. A closed bar shows the longest spans below it.
      </p>
      <p class="colors flex wrap">
        {(m.services.length > 1 ? m.services : Object.keys(m.names)).slice(0, 10).map(n => (
          <span>
            <i class="dot" style={trace.hue(n, n)} /> {plain(n)}
          </span>
        ))}
      </p>
      <button class="btn" onClick={() => el.current!.close()}>
        Close
      </button>
    </dialog>
  )
}

function copyLink() {
  const m = trace.meta.value!
  const url = m.static === undefined ? location.origin + location.pathname + address.address() : location.href
  const command = m.command ? `${m.command} --state '${address.address().replace(/'/g, '%27')}'` : ''
  page
    .copy(
      command ? command + '\n' + url : url,
      'The link is copied',
      trace.embedded ? 'The editor did not allow copying' : 'The browser did not allow copying; the address is the link'
    )
    .then(ok => {
      if (ok)
        page.tell(
          command
            ? 'Copied: a command that opens this view later, and a link for this browser while the program runs'
            : 'The link is copied'
        )
    })
}

function pause() {
  follow.paused.value = !follow.paused.value
  follow.fresh.value = 0
  listen()
  if (!follow.paused.value) take()
}

// listen receives news about the trace. When the user pauses, another stream begins, with the state that the page
// shows at that time.
let deaf = () => {},
  told = 0,
  known = '',
  failed = ''
function listen() {
  deaf()
  deaf = trace.source.follow(
    follow.paused.value,
    ({ rows, entries, generation, error, notices, state, states, pin, other }) => {
      if (notices) trace.meta.value = { ...trace.meta.value!, notices, state: state ?? '', states: states ?? [] }
      if (error) {
        page.notice.value = failed = error
        return
      }
      if (rows < 0) {
        // the stream has ended: check whether the server still answers
        if (!failed)
          setTimeout(
            () =>
              trace.source.ask('meta', {}).then(
                () => listen(),
                () => {
                  page.notice.value = 'The program that served this page has ended'
                }
              ),
            1000
          )
        return
      }
      if (pin) {
        told = rows
        if (other) {
          follow.fresh.value = 0
          take()
        }
      }
      const now = `${generation} ${entries}`
      if (now === known) return
      if (rows > told) follow.fresh.value += rows - told
      told = rows
      known = now
      if (!follow.paused.value) take()
    }
  )
}

// take shows new entries.
const take = paced(
  () => 100,
  async () => {
    try {
      follow.grow(await trace.source.ask('meta', { f: trace.meta.value!.fingerprint }))
      scroll.renew()
      if (search.query.value && !search.searching.value) await search.find(true)
    } catch {
      /* the stream reports the error */
    }
  }
)

// letterOf maps keys to the letters that have the same effect.
const letterOf: Record<string, string> = {
  ArrowDown: 'j',
  ArrowUp: 'k',
  ArrowRight: 'l',
  ArrowLeft: 'h',
  Home: 'g',
  End: 'G'
}

function press(e: KeyboardEvent) {
  const el = e.target as HTMLElement
  if (
    (e.ctrlKey && !e.getModifierState('AltGraph')) ||
    e.metaKey ||
    (e.altKey && !e.getModifierState('AltGraph')) ||
    el.closest('input,select,textarea') ||
    document.querySelector('dialog[open]')
  )
    return
  // These keys scroll a panel that has the focus.
  if (el.closest('.det,.topv') && /^( |PageDown|PageUp|Home|End|ArrowDown|ArrowUp)$/.test(e.key)) return
  const tree: Record<string, () => void> = {
    j: () => scroll.move(1),
    k: () => scroll.move(-1),
    l: () => scroll.open(),
    h: () => scroll.close(),
    g: () => scroll.end(false),
    G: () => scroll.end(true),
    PageDown: () => scroll.turn(1),
    PageUp: () => scroll.turn(-1),
    w: () => moves.zoom(0.8),
    s: () => moves.zoom(1.25),
    a: () => moves.pan(-0.2),
    d: () => moves.pan(0.2),
    f: () => moves.fit(),
    E: () => scroll.more(),
    t: () => moves.short(),
    b: time.toggleLengths,
    c: flip(selection.withPath),
    x: () => selection.openToHits(),
    r: () => scroll.root(),
    Enter: () => {
      page.details.value = true
      page.sheet.value = phone()
    },
    Escape: () => {
      if (page.facetsOver.value) page.facetsOver.value = false
      else if (page.sheet.value) page.sheet.value = false
      else if (page.root.value) selection.subtree(0)
      else time.wholeAxis()
    },
    z: time.fold,
    ']': () => {
      const on = phone() ? page.sheet : page.details
      on.value = !on.value
    }
  }
  const all: Record<string, () => void> = {
    '/': () => document.getElementById('query')!.focus(),
    '?': () => {
      page.help.value = true
    },
    n: () => selection.next('next'),
    N: () => selection.next('prev'),
    e: () => selection.next('next', 'error'),
    u: () => selection.next('next', 'open'),
    ...Object.fromEntries(
      views.map((v, i) => [
        i + 1,
        () => {
          page.view.value = v
        }
      ])
    ),
    0: time.wholeAxis,
    i: time.toggleInside,
    y: copyLink,
    ' ': () => {
      if (trace.meta.value!.follow) pause()
    }
  }
  if (el.closest('button,a,summary') && (e.key === 'Enter' || e.key === ' ')) return
  // On keyboards with another alphabet, the code of a key has its Latin letter. CapsLock does not change the key.
  const letter = /^[^ -~]$/.test(e.key) && !e.getModifierState('AltGraph') ? e.code.replace('Key', '') : e.key,
    key =
      letterOf[letter] ??
      (letter.length > 1 || (letter === e.key && !e.getModifierState('CapsLock'))
        ? letter
        : e.shiftKey
          ? letter.toUpperCase()
          : letter.toLowerCase())
  const inTime = page.view.value === 'flame' && page.wide.value === 'lanes' && /^[wsadf]$/.test(key)
  const act = all[key] ?? (page.view.value === 'tree' || inTime ? tree[key] : undefined)
  if (!act) return
  e.preventDefault()
  if (tree[key] && page.view.value === 'tree' && !el.closest('.rows') && !el.closest('.det'))
    document.querySelector<HTMLElement>('.rows')?.focus()
  act()
}

async function start() {
  const app = document.getElementById('app')!
  effect(() => {
    document.documentElement.style.colorScheme = page.theme.value === 'auto' ? '' : page.theme.value
  })
  effect(() => {
    const m = trace.meta.peek()
    written.utc = page.utc.value !== ''
    if (m) trace.meta.value = { ...m } // draw everything with times again
  })
  effect(() => {
    const m = trace.meta.value
    written.dated = !!m?.first_unix_nano && day(m.first_unix_nano) !== day(m.last_unix_nano ?? m.first_unix_nano)
  })
  try {
    await trace.begin(({ waiting, runs }) =>
      render(
        runs ? (
          <Runs runs={runs} />
        ) : (
          <div class="blank ground soft abs grid" role="status">
            <h2>There is no trace yet</h2>
            <p>{plain(waiting![0]!.toUpperCase() + waiting!.slice(1))}…</p>
          </div>
        ),
        app
      )
    )
    address.readAddress(trace.place())
  } catch (e) {
    addEventListener('hashchange', () => location.reload())
    render(
      <div class="blank ground soft abs grid">
        <h2>
          {e instanceof Problem && e.status === 401 ? 'This page may not see the trace' : 'The trace cannot be shown'}
        </h2>
        <p>{e instanceof Problem ? plain(e.message) : 'The program that serves it has gone.'}</p>
      </div>,
      app
    )
    return
  }
  document.title = plain(title()) + ' – entrace'
  addEventListener('keydown', press)
  window.__entrace = drawn
  const wideEnough = matchMedia('(min-width:1400px)')
  wide.value = wideEnough.matches
  wideEnough.addEventListener('change', e => {
    wide.value = e.matches
  })
  if (search.text.value) await search.find()
  render(<App />, app)
  let step = address.step(),
    back = false
  const late = signal(0)
  effect(() => {
    late.value
    const a = address.address(),
      to = address.step()
    if (a !== trace.place())
      try {
        history[back || to === step ? 'replaceState' : 'pushState'](
          null,
          '',
          trace.meta.value!.static === undefined ? location.pathname + a : '#' + a.slice(1)
        )
      } catch {
        setTimeout(() => late.value++, 1000) // Safari allows 100 changes in 30 s
      }
    step = to
  })
  addEventListener('popstate', () => {
    back = true
    address.back(trace.place())
    back = false
  })
  if (page.selected.value && page.view.value === 'tree') selection.go(page.selected.value, false)
  effect(search.count)
  effect(selection.followPath)
  follow.resume.value = () => {
    if (follow.paused.value) pause()
  }
  effect(() => {
    const row = page.root.value
    if (row)
      trace.source.ask('entry', { row }).then(
        e => {
          if (page.root.value === row) selection.rootName.value = e.role === 'log' ? (e.message ?? '') : e.name
        },
        () => {}
      )
  })
  told = trace.meta.value!.rows
  known = `${trace.meta.value!.generation} ${trace.meta.value!.entries}`
  listen()
  addEventListener('hashchange', () => {
    if (location.hash.includes('token=')) location.reload()
  })
}

start()
