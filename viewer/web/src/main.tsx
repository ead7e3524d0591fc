// The page that shows a trace.
import { effect, signal } from '@preact/signals'
import { render } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { Details } from './details'
import { Facets } from './facets'
import { FlameView, lastFlame } from './flame'
import { lastHeat } from './heat'
import { Icon } from './icons'
import { Query } from './query'
import { lastLanes } from './lanes'
import { hasRuntime, lastLane } from './runtime'
import { Problem } from './source'
import * as s from './state'
import { Chosen, lastStrip, Strip } from './strip'
import { TableView } from './table'
import { count, duration, many, plain } from './text'
import { Overview, title } from './top'
import { lastFrame, list, phone, renew, Tree } from './tree'

declare global {
  interface Window {
    __entrace?: {
      frame: typeof lastFrame
      strip: typeof lastStrip
      flame: typeof lastFlame
      lanes: typeof lastLanes
      lane: typeof lastLane
      heat: typeof lastHeat
    }
  }
}

// nextTheme goes from the theme of the system to the other one, to that of the system by name, and back.
function nextTheme() {
  const dark = matchMedia('(prefers-color-scheme: dark)').matches,
    other = dark ? 'light' : 'dark',
    same = dark ? 'dark' : 'light'
  s.theme.value = s.theme.value === 'auto' ? other : s.theme.value === other ? same : 'auto'
}

const views = ['top', 'tree', 'flame', 'table'] as const,
  viewNames = ['Overview', 'Tree', 'Flame', 'Table']
const wide = signal(true) // there is room for facets
const withFacets = () => s.view.value === 'tree' && (wide.value ? s.facets.value === '1' : s.facetsOver.value)

function App() {
  const m = s.meta.value!
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={e => {
          e.preventDefault()
          document.querySelector<HTMLElement>(s.view.value === 'tree' ? '.rows' : '#main')?.focus()
        }}>
        To the rows
      </a>
      <header class={'top' + (s.embedded ? ' emb' : '')}>
        <h1 class="sr">{plain(title())}</h1>
        <span class="brand">
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <path d="M1 2h9v3H1zM4 6.500h8v3H4zM7 11h8v3H7z" fill="currentColor" />
          </svg>
          <span>entrace</span>
        </span>
        <span class="file el" title={m.files.map(f => plain(f.name)).join('\n')}>
          {plain(title())} <span class="q">{count(m.entries)} entries</span>{' '}
          {m.against && <span class="q">against {plain(m.against)} </span>}
          <span class="q" title={m.states.map((x, i) => plain(`${m.files[i]?.name} ${x.text}`)).join('\n')}>
            {plain(m.state)}
          </span>
        </span>
        <nav class="tabs" role="tablist" aria-label="Views">
          {views.map((v, i) => (
            <button
              role="tab"
              aria-selected={s.view.value === v}
              onClick={() => {
                s.view.value = v
              }}>
              {viewNames[i]}
            </button>
          ))}
        </nav>
        <span class="grow" />
        {m.follow && (
          <button
            class={'ib live' + (s.paused.value || !s.running() ? '' : ' on')}
            aria-pressed={!s.paused.value}
            onClick={pause}>
            <i class="dotl" />
            {s.paused.value ? (
              <>Paused{s.fresh.value > 0 && `, ${count(s.fresh.value)} new`}</>
            ) : s.running() ? (
              'Live'
            ) : (
              s.ending()
            )}
          </button>
        )}
        {(m.formats?.length ?? 0) > 0 && (
          <select
            class="ib no-n"
            aria-label="Save as"
            title="Save what is selected: the hits, or this subtree"
            value=""
            onChange={e => {
              const f = m.formats.find(f => f.name === e.currentTarget.value)
              e.currentTarget.value = ''
              if (f) s.download('part' + f.extension, s.src().save(f.name, s.part()))
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
        <button class="ib" aria-label={'Theme: ' + s.theme.value} title={'Theme: ' + s.theme.value} onClick={nextTheme}>
          ◐
        </button>
        <button
          class="ib"
          aria-label="Keys"
          title="Keys (?)"
          onClick={() => {
            s.help.value = true
          }}>
          ?
        </button>
      </header>
      <Query />
      <section aria-label="Notices">
        {m.static !== undefined && (
          <div class="notice" role="status">
            A copy of{' '}
            {m.static ? (
              <>
                what <code class="mono">{plain(m.static)}</code> selects
              </>
            ) : (
              'the trace'
            )}
            , as it was. It finds words; queries need 'entrace view'.
          </div>
        )}
        {m.notices.map(n => (
          <div class="notice" role="status">
            {plain(n)}
          </div>
        ))}
        {s.other.value && (
          <div class="notice" role="status">
            The link is to another file, {s.other.value}; this one is {m.fingerprint}. The query was kept.{' '}
            <button
              class="lk"
              onClick={() => {
                s.other.value = ''
              }}>
              Dismiss
            </button>
          </div>
        )}
        {s.notice.value && (
          <div class="notice" role="status">
            {plain(s.notice.value)}{' '}
            <button
              class="lk"
              onClick={() => {
                s.notice.value = ''
              }}>
              Dismiss
            </button>
          </div>
        )}
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
          (s.details.value && s.view.value === 'tree' ? '' : ' nod') +
          (withFacets() ? (wide.value ? ' fc' : ' fo') : '') +
          (s.sheet.value ? ' sheet' : '')
        }>
        {withFacets() && <Facets />}
        <div class="centre">
          {s.view.value === 'tree' ? (
            <Tools />
          ) : (
            m.timed && (
              <div class="tool">
                <span class="grow" />
                <Chosen />
              </div>
            )
          )}
          {{ top: <Overview />, tree: <Tree />, flame: <FlameView />, table: <TableView /> }[s.view.value]}
        </div>
        {s.view.value === 'tree' && s.details.value && (
          <>
            <div
              class="scrim"
              onClick={() => {
                s.sheet.value = false
              }}
            />
            <Details />
          </>
        )}
      </main>
      {!s.embedded && (
        <footer class="stat">
          <span>
            <kbd>/</kbd> query
          </span>
          <span>
            <kbd>e</kbd> next error
          </span>
          <span>
            <kbd>double click</kbd> this request alone
          </span>
          <span>
            <kbd>?</kbd> keys
          </span>
        </footer>
      )}
      <div class="sr" role="status" aria-live="polite">
        {s.spoken.value}
      </div>
      {s.help.value && <Keys />}
    </>
  )
}

function Tools() {
  const levels = [0, 1, 2, 3, 5, 9]
  return (
    <div class="tool">
      {s.root.value ? (
        <span class="crumb el">
          <button class="lk" onClick={() => s.subtree(0)}>
            Whole file
          </button>{' '}
          › {plain(s.rootName.value)}
        </span>
      ) : (
        <span class="crumb">Whole file</span>
      )}
      <span class="grow" />
      <Chosen />
      <Pills />
      <label class="q">
        Open{' '}
        <select
          aria-label="What is open"
          value={s.toggled.value.length ? 'some' : String(s.depth.value)}
          onChange={e => {
            const what = e.currentTarget.value
            if (what === 'hits') s.openToHits()
            else s.open(Number(what))
          }}>
          {s.toggled.value.length > 0 && <option value="some">some rows</option>}
          {levels.map(n => (
            <option value={n}>{n ? many(n, 'level', 'levels') : 'no row'}</option>
          ))}
          <option value={s.maxDepth}>all rows</option>
          <option value="hits" disabled={!s.query.value}>
            to the hits
          </option>
        </select>
      </label>
      <button
        class="btn s"
        aria-pressed={withFacets()}
        onClick={() => {
          if (wide.value) s.facets.value = s.facets.value === '1' ? '0' : '1'
          else s.facetsOver.value = !s.facetsOver.value
        }}>
        Facets
      </button>
      <button
        class="btn s no-n"
        aria-pressed={s.details.value}
        onClick={() => {
          s.details.value = !s.details.value
        }}>
        Details
      </button>
    </div>
  )
}

const requests = '{ parent = nil }',
  errors = '{ span:failed || (level >= error && entry:role != event) }',
  open = '{ span:open }'

// Pills show what people look for first.
function Pills() {
  const is = (q: string) => s.query.value === q && s.mode.value === 'only'
  const pill = (q: string, label: string) => (
    <button
      class="btn s no-n"
      aria-pressed={is(q)}
      onClick={() => {
        const off = is(q)
        s.text.value = off ? '' : q
        s.find().then(() => s.setMode(off ? 'mark' : 'only'))
      }}>
      {label}
    </button>
  )
  return (
    <>
      {s.meta.value!.static === undefined && pill(requests, 'Requests')}
      {pill(errors, 'Errors')}
      {pill(open, 'Never ended')}
      {s.meta.value!.timed && (
        <button
          class="btn s no-n"
          aria-pressed={s.withPath.value}
          title="What the request of the selected row waited for: measured if Go's execution trace tells, else inferred from times (c)"
          onClick={() => {
            s.withPath.value = !s.withPath.value
          }}>
          Critical path
          {s.path.value && ` ${duration(s.path.value.length)}, ${s.path.value.measured ? 'measured' : 'inferred'}`}
        </button>
      )}
      {hasRuntime.value && (
        <button
          class="btn s no-n"
          aria-pressed={s.lane.value}
          onClick={() => {
            s.lane.value = !s.lane.value
          }}>
          GC and runtime
        </button>
      )}
      {s.shortest.value > 0n && (
        <button
          class="btn s"
          aria-pressed={true}
          title="Spans that took less are left out (t)"
          onClick={() => s.leaveOutShort(0n)}>
          From {duration(s.shortest.value)} on
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
      ['→ l, ← h', 'open; close, or to the one above'],
      ['g, G', 'first, last'],
      ['Enter', 'details'],
      ['E', 'open a level more'],
      ['x', 'open to the hits'],
      ['r', 'this subtree alone'],
      ['Esc', 'the whole file again']
    ]
  ],
  [
    'Find',
    [
      ['/', 'query'],
      ['n, N', 'next, previous hit'],
      ['e', 'next error'],
      ['u', 'next that never ended'],
      ['Ctrl Space', 'what can be written']
    ]
  ],
  [
    'Time and more',
    [
      ['w, s', 'closer, farther'],
      ['a, d', 'earlier, later'],
      ['f', 'fit to this row'],
      ['double click', 'this request alone'],
      ['0', 'all of the time'],
      ['drag', 'choose a part of the time'],
      ['i', 'what lies outside, too'],
      ['z', 'fold idle times'],
      ['t', 'leave out short spans'],
      ['c', 'critical path'],
      ['Ctrl wheel', 'closer, farther'],
      ['Shift wheel', 'earlier, later'],
      ['1, 2, 3, 4', viewNames.join(', ')],
      [']', 'details'],
      ['y', 'copy link'],
      ['Space', 'pause']
    ]
  ]
]

function Keys() {
  const el = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    el.current!.showModal()
  }, [])
  return (
    <dialog
      ref={el}
      aria-label="Keys"
      onClose={() => {
        s.help.value = false
      }}
      onClick={e => {
        if (e.target === el.current) el.current!.close()
      }}>
      <h2>Keys</h2>
      <div class="keys">
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
        A solid bar is a span without spans below, a light one has some. Hatched: never ended. A red end: it failed.
        Marks on a bar are log records: a triangle is a warning or an error.
      </p>
      <button class="btn" onClick={() => el.current!.close()}>
        Close
      </button>
    </dialog>
  )
}

function copyLink() {
  const m = s.meta.value!
  const url = m.static === undefined ? location.origin + location.pathname + s.address() : location.href
  const command = m.command ? `${m.command} --state '${s.address().replace(/'/g, '%27')}'` : ''
  s.copy(
    command ? command + '\n' + url : url,
    'The link is copied',
    s.embedded
      ? 'The editor did not let it be copied'
      : 'The browser did not let it be copied; the address has everything'
  ).then(ok => {
    if (ok)
      s.tell(
        command
          ? 'Copied: a command that opens the same later, and the link, for this browser while the program runs'
          : 'The link is copied'
      )
  })
}

function pause() {
  s.paused.value = !s.paused.value
  s.fresh.value = 0
  listen()
  if (!s.paused.value) take()
}

// listen hears what is new. A pause is another stream, which begins with what is shown meanwhile.
let deaf = () => {},
  told = 0,
  known = '',
  failed = ''
function listen() {
  deaf()
  deaf = s.src().follow(s.paused.value, ({ rows, entries, generation, error, notices, state, states, pin, other }) => {
    if (notices) s.meta.value = { ...s.meta.value!, notices, state: state ?? '', states: states ?? [] }
    if (error) {
      s.notice.value = failed = error
      return
    }
    if (rows < 0) {
      // the stream has ended: is anybody there?
      if (!failed)
        setTimeout(
          () =>
            s
              .src()
              .meta()
              .then(
                () => listen(),
                () => {
                  s.notice.value = 'The program that served this page has ended'
                }
              ),
          1000
        )
      return
    }
    if (pin) {
      told = rows
      if (other) {
        s.fresh.value = 0
        take()
      }
    }
    const now = `${generation} ${entries}`
    if (now === known) return
    if (rows > told) s.fresh.value += rows - told
    told = rows
    known = now
    if (!s.paused.value) take()
  })
}

// take shows what has come: once at a time, and then with a rest as long as it took.
let taking = false,
  again = false
async function take() {
  if (taking) {
    again = true
    return
  }
  taking = true
  const begun = performance.now()
  try {
    s.grow(await s.src().meta(s.meta.value!.fingerprint))
    renew()
    if (s.query.value && !s.searching.value) await s.find(true)
  } catch {
    /* the stream says it */
  }
  await new Promise(r => setTimeout(r, Math.max(100, performance.now() - begun)))
  taking = false
  if (again) {
    again = false
    take()
  }
}

function press(e: KeyboardEvent) {
  const el = e.target as HTMLElement
  if (
    e.ctrlKey ||
    e.metaKey ||
    e.altKey ||
    el.closest('input,select,textarea') ||
    document.querySelector('dialog[open]')
  )
    return
  const tree: Record<string, () => void> = {
    j: () => list.move!(1),
    ArrowDown: () => list.move!(1),
    k: () => list.move!(-1),
    ArrowUp: () => list.move!(-1),
    l: () => list.open!(true),
    ArrowRight: () => list.open!(true),
    h: () => list.open!(false),
    ArrowLeft: () => list.open!(false),
    g: () => list.end!(false),
    Home: () => list.end!(false),
    G: () => list.end!(true),
    End: () => list.end!(true),
    PageDown: () => list.page!(1),
    PageUp: () => list.page!(-1),
    w: () => list.zoom!(0.8),
    s: () => list.zoom!(1.25),
    a: () => list.pan!(-0.2),
    d: () => list.pan!(0.2),
    f: () => list.fit!(),
    E: () => list.more!(),
    t: () => list.short!(),
    c: () => {
      s.withPath.value = !s.withPath.value
    },
    x: () => s.openToHits(),
    r: () => list.root!(),
    Enter: () => {
      s.details.value = true
      s.sheet.value = phone()
    },
    Escape: () => {
      if (list.cancel) list.cancel()
      else if (s.facetsOver.value) s.facetsOver.value = false
      else if (s.sheet.value) s.sheet.value = false
      else if (s.root.value) s.subtree(0)
      else s.wholeAxis()
    },
    z: () => {
      s.folded.value = !s.folded.value
    },
    ']': () => {
      const on = phone() ? s.sheet : s.details
      on.value = !on.value
    }
  }
  const all: Record<string, () => void> = {
    '/': () => document.getElementById('query')!.focus(),
    '?': () => {
      s.help.value = true
    },
    n: () => s.next('next'),
    N: () => s.next('prev'),
    e: () => s.next('next', 'error'),
    u: () => s.next('next', 'open'),
    ...Object.fromEntries(
      views.map((v, i) => [
        i + 1,
        () => {
          s.view.value = v
        }
      ])
    ),
    0: s.wholeAxis,
    i: s.toggleInside,
    y: copyLink,
    ' ': () => {
      if (s.meta.value!.follow) pause()
    }
  }
  if (el.closest('button,a,summary') && (e.key === 'Enter' || e.key === ' ')) return
  const inTime = s.view.value === 'flame' && s.wide.value === 'lanes' && /^[wsadf]$/.test(e.key)
  const act = all[e.key] ?? (s.view.value === 'tree' || inTime ? tree[e.key] : undefined)
  if (!act) return
  e.preventDefault()
  if (tree[e.key] && s.view.value === 'tree' && !el.closest('.rows') && !el.closest('.det'))
    document.querySelector<HTMLElement>('.rows')?.focus()
  act()
}

async function start() {
  const app = document.getElementById('app')!
  try {
    await s.begin(text =>
      render(
        <div class="blank" role="status">
          <h2>There is no trace yet</h2>
          <p>{plain(text[0]!.toUpperCase() + text.slice(1))}…</p>
        </div>,
        app
      )
    )
  } catch (e) {
    addEventListener('hashchange', () => location.reload())
    render(
      <div class="blank">
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
  window.__entrace = {
    frame: lastFrame,
    strip: lastStrip,
    flame: lastFlame,
    lanes: lastLanes,
    lane: lastLane,
    heat: lastHeat
  }
  const wideEnough = matchMedia('(min-width:1180px)')
  wide.value = wideEnough.matches
  wideEnough.addEventListener('change', e => {
    wide.value = e.matches
  })
  if (s.text.value) await s.find()
  render(<App />, app)
  let step = s.step(),
    back = false
  effect(() => {
    const a = s.address(),
      to = s.step()
    if (a !== s.place())
      history[back || to === step ? 'replaceState' : 'pushState'](
        null,
        '',
        s.meta.value!.static === undefined ? location.pathname + a : '#' + a.slice(1)
      )
    step = to
  })
  addEventListener('popstate', () => {
    back = true
    s.back(s.place())
    back = false
  })
  if (s.selected.value && s.view.value === 'tree') s.go(s.selected.value, false)
  effect(s.count)
  effect(s.followPath)
  effect(() => {
    document.documentElement.style.colorScheme = s.theme.value === 'auto' ? '' : s.theme.value
  })
  s.resume.value = () => {
    if (s.paused.value) pause()
  }
  effect(() => {
    const row = s.root.value
    if (row)
      s.src()
        .entry(row, false)
        .then(
          e => {
            if (s.root.value === row) s.rootName.value = e.role === 'log' ? (e.message ?? '') : e.name
          },
          () => {}
        )
  })
  told = s.meta.value!.rows
  known = `${s.meta.value!.generation} ${s.meta.value!.entries}`
  listen()
  addEventListener('hashchange', () => {
    if (location.hash.includes('token=')) location.reload()
  })
}

start()
