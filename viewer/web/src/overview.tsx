// The overview: a first look at an unknown trace.
import type { ComponentChildren } from 'preact'
import { useAnswer, useLatest } from './ask'
import { HeatMap } from './heat'
import * as page from './page'
import { none } from './parts'
import * as search from './search'
import * as selection from './selection'
import type { Line, Meta, Repeat } from './source'
import { count, duration, many, moment, plain, quoted } from './text'
import * as time from './time'
import * as trace from './trace'

export function Overview() {
  const m = trace.meta.value!,
    part = { window: time.windowText.value }
  const { value: t, failed } = useLatest('top', part)
  // the waits take longer to find
  const waits = useAnswer('waits', t && (m.goroutines || m.static !== undefined) && part, trace.version()).value
  if (failed || !t)
    return (
      <div class="topv grow scroll">
        {none(failed ? `The overview cannot be made: ${failed}` : `Looking through ${count(m.entries)} entries…`)}
      </div>
    )
  // find goes to the first hit. With from, it goes to the first hit at or after the row from.
  const find = (q: string, from = 0, isHit = false) => {
    page.view.value = 'tree'
    search.look(q).then(ok => {
      if (from) page.selected.value = from
      if (isHit) selection.go(from)
      else if (ok) selection.next('next')
    })
  }
  const absent = Object.entries({
    errors: t.errors,
    'spans that never ended': t.open_spans,
    'repeated calls': t.repeats.length,
    gaps: t.gaps.length
  }).flatMap(([what, n]) => (n ? [] : [what]))
  const clocks = m.corrected.length ? m.corrected : m.clocks
  const causes = <Causes find={m.static === undefined && find} />
  return (
    <div class="topv grow scroll" tabIndex={-1}>
      {m.states.some(x => x.text !== 'ended') && (
        <ul class="states">
          {m.states.map((x, i) => (
            <li class="el" title={plain(x.text)}>
              <b>{plain(base(m.files[i]?.name ?? ''))}</b> {plain(x.text)}
            </li>
          ))}
        </ul>
      )}
      {clocks.length > 0 && (
        <p class="clocks">
          {clocks.map(clockText).join(' ')}{' '}
          {m.canCorrect ? (
            <button class="btn s" onClick={trace.toggleClocks}>
              {m.corrected.length ? 'As recorded' : 'Correct'}
            </button>
          ) : (
            'With --clock auto, times are corrected.'
          )}
        </p>
      )}
      {m.timed && m.spans ? <HeatMap find={m.static === undefined && find}>{causes}</HeatMap> : causes}
      <div class="tg grid">
        <List
          title="Slowest requests"
          items={lines(
            t.slowest.map(x => x.row),
            i => `, the slowest of ${count(t.slowest[i]!.count)}`
          )}
        />
        <List
          title={
            <span class="err">
              {t.failed_requests > 0 && many(t.failed_requests, 'failed request') + ', '}
              {many(t.errors, 'error')}
            </span>
          }
          items={t.error_patterns.map(p => ({
            name: plain(p.pattern),
            n: count(p.count) + '×',
            q: p.role,
            go: () => selection.goToRequest(p.first.row)
          }))}>
          <button class="lk" onClick={() => find('{ span:failed || (level >= error && entry:role != event) }')}>
            Find all of them
          </button>
        </List>
        <List title={many(t.open_spans, 'span never ended', 'spans never ended')} items={lines(t.never_ended)}>
          {t.open_spans > t.never_ended.length && (
            <button class="lk" onClick={() => find('{ span:open }')}>
              Find all of them
            </button>
          )}
        </List>
        <List
          title="What spans waited for"
          hint="From the execution trace, the longest first"
          items={(waits ?? []).map(w => ({
            name: plain(w.text),
            kind: 'says',
            n: duration(w.time_nano),
            go: () => selection.go(w.longest.row)
          }))}
        />
        {t.growth.length > 0 && (
          <section class="tl3">
            <h2>Growing numbers</h2>
            {t.growth.map(g => (
              <p class="says">
                {g.of}: {g.first} → {g.last} in {duration(g.time_nano)}
              </p>
            ))}
          </section>
        )}
        <List
          title={t.goroutines.length > 0 && `Goroutines at ${moment(t.goroutines_at_unix_nano!, 3)}`}
          items={t.goroutines.map(g => ({
            title: plain(g.stack),
            name: plain(g.in) || '(unknown)',
            n: many(g.count, 'goroutine'),
            q: g.spans > 0 && `for ${many(g.spans, 'span')}, ${g.ended} of which ended`,
            go: () => selection.go(g.row.row)
          }))}>
          {t.more_goroutines > 0 && <p class="q">{many(t.more_goroutines, 'goroutine')} on other stacks</p>}
        </List>
        <List
          title="Services"
          items={t.services.map(({ service: name, spans, logs, errors }) => ({
            title: plain(name),
            name: (
              <>
                <i class="dot" style={trace.hue(name)} /> {plain(name) || '(none)'}
              </>
            ),
            n: many(spans, 'span'),
            q: [logs && many(logs, 'log record'), errors && many(errors, 'error')].filter(Boolean).join(', '),
            go: () => find(name ? `service = ${quoted(name)}` : '{ service = nil }')
          }))}
        />
        <List
          title="Self time"
          items={t.self.lines.map(l => {
            const at = (c: string) => l.values[t.self.columns.findIndex(x => x.name === c)],
              name = String(at('name')),
              service = String(at('service') ?? '')
            return {
              title: plain(name),
              name: (
                <>
                  <i class="dot" style={trace.hue(service, name)} /> {plain(name)}{' '}
                  {service && <span class="q">{plain(service)}</span>}
                </>
              ),
              n: at('self') ? duration(BigInt(at('self')!)) : '-',
              q:
                many(Number(at('count')), 'span') + (at('p95') ? ', duration p95 ' + duration(BigInt(at('p95')!)) : ''),
              go: () =>
                find(
                  `{ entry:role = span && name = ${quoted(name)} && ${service ? `service = ${quoted(service)}` : 'service = nil'} }`
                )
            }
          })}
        />
        <List
          title="Repeated calls"
          hint="Five or more spans of one name, directly below the same span"
          items={t.repeats.map(r => ({
            name: plain(call(r)),
            kind: 'el mono',
            n: `${r.spans > 1 ? 'up to ' : ''}${count(r.most_calls)}×`,
            q: `below ${plain(r.of)}${r.spans > 1 ? `, in ${count(r.spans)} spans` : ''}, ${duration(r.time_nano)}${r.spans > 1 ? ' in all' : ''}`,
            go: () => selection.go(r.most.row)
          }))}
        />
        <List
          title="Longest gaps"
          hint="No span began or ended, and nothing was logged"
          items={t.gaps.map(g => ({
            title: `after ${plain(g.before.name)}, ${g.after ? 'before ' + plain(g.after.name) : 'until the end'}`,
            name: `after ${plain(g.before.name)}`,
            n: duration(g.duration_nano),
            q: `${moment(g.from_unix_nano!, 3)} ${g.after ? 'before ' + plain(g.after.name) : 'until the end'}`,
            go: () => selection.go((g.after ?? g.before).row)
          }))}
        />
      </div>
      <p class="q all">
        {many(t.spans, 'span')}, {many(t.logs, 'log record')}.{absent.length > 0 && ` None: ${absent.join(', ')}.`}
      </p>
    </div>
  )
}

interface Item {
  title?: string
  name: ComponentChildren
  kind?: string
  n: string
  q?: ComponentChildren
  go: () => void
}

// List is a list of links. It is hidden if it is empty.
function List({
  title,
  hint,
  items,
  children
}: {
  title: ComponentChildren
  hint?: string
  items: Item[]
  children?: ComponentChildren
}) {
  if (!items.length) return null
  return (
    <section class="tl3">
      <h2 title={hint}>{title}</h2>
      <ul>
        {items.map(i => (
          <li>
            <button title={i.title ?? String(i.name)} onClick={i.go}>
              <span class={i.kind ?? 'el'}>{i.name}</span>
              <span class="n">{i.n}</span>
              {i.q && <span class="q el">{i.q}</span>}
            </button>
          </li>
        ))}
      </ul>
      {children}
    </section>
  )
}

// Causes says why requests are slow or fail.
function Causes({ find }: { find: false | ((q: string, from?: number, isHit?: boolean) => void) }) {
  const { value: x, failed } = useAnswer('explain', { ...search.part(), q: search.query.value, root: 0 })
  if (!x) return <p class="q">{failed ? plain(failed) : 'Looking for a cause…'}</p>
  const [before, now] = x.looked.requests
  return (
    <section class="tl3">
      <h2 class={x.alarming ? 'err' : ''}>{plain(x.verdict)}</h2>
      <p class="q">
        {many(now, 'request')}
        {search.query.value && (
          <>
            {' '}
            that the query selects{' '}
            <button class="lk" onClick={() => search.look('')}>
              (all requests)
            </button>
          </>
        )}
        {x.since && ` from ${moment(x.since.at_unix_nano!, 3)} on`}
        {before > 0 && x.where.length === 0 && ` compared with ${many(before, 'other')}`}
        {x.baseline.text && `; ${plain(x.baseline.text)}`}
      </p>
      {x.deaths.length + x.failures.length + x.where.length > 0 && (
        <ul>
          {x.deaths
            .filter(d => d.text !== x.verdict)
            .map(d => (
              <li class="says err">{plain(d.text)}</li>
            ))}
          {[...x.failures, ...x.where].map(f => (
            <li>
              <button disabled={!f.row} onClick={() => f.row && selection.goToRequest(f.row.row)}>
                <span>{plain(f.text)}</span>
                {'share' in f && (
                  <span class="n">
                    {Math.round(100 * f.share)} % of {f.of}
                  </span>
                )}
              </button>
            </li>
          ))}
        </ul>
      )}
      <ul class="cards">
        {x.causes
          .filter((c, i) => c.sure || (i === 0 && x.where.length === 0))
          .map((c, i) => (
            <li>
              <h3>
                {c.sure && <span class="err">{i + 1}</span>} {plain(c.operation)}
                {c.of && c.of !== c.operation && ` of ${plain(c.of)}`} <span class="q">{plain(c.service)}</span>
              </h3>
              {c.from_unix_nano !== null && (
                <p class="q">
                  from {moment(c.from_unix_nano, 3)} {c.to_unix_nano ? `to ${moment(c.to_unix_nano, 3)}` : 'to the end'}
                </p>
              )}
              {c.evidence.map(e => (
                <p class="says">
                  {plain(e.text)}
                  {e.place && <span class="q"> at {plain(e.place)}</span>}
                </p>
              ))}
              {c.covers.text && <p class="says">{plain(c.covers.text)}</p>}
              {find && (
                <button class="lk" onClick={() => find(c.query, c.example?.row, c.example?.name === c.operation)}>
                  Show in the tree
                </button>
              )}
            </li>
          ))}
        {x.shares.map(e => (
          <li class="says">{plain(e.text)}</li>
        ))}
        {x.habits.map(e => (
          <li class="says q">Changed, but no request is slower or fails because of it: {plain(e.text)}</li>
        ))}
      </ul>
    </section>
  )
}

function clockText({ name, late }: Meta['clocks'][0]) {
  const clock = 'The clock of ' + plain(name)
  if (trace.corrected) return `${clock} is corrected by ${late}.`
  return `${clock} seems ${late.slice(1)} ${late.startsWith('-') ? 'fast' : 'late'}.`
}

const lines = (list: Line[], more?: (i: number) => string): Item[] =>
  list.map((l, i) => ({
    name: plain(l.name),
    n: l.duration_nano !== null ? (l.open ? '≥ ' : '') + duration(l.duration_nano) : '',
    go: () => selection.goToRequest(l.row),
    q: (
      <>
        {l.in && <b>in {plain(l.in)} </b>}
        {plain(l.service)}
        {l.of && ` in ${plain(l.of)}`}
        {l.start_unix_nano !== null ? ' ' + moment(l.start_unix_nano, 3) : ''}
        {more?.(i)}
      </>
    )
  }))

// call returns the text of a repeated call. The text begins with the name of the call.
const call = (r: Repeat) => (r.text.startsWith(r.name) ? r.text : `${r.name} ${r.text}`.trim())

const base = (name: string) => name.slice(name.lastIndexOf('/') + 1)

export function title(): string {
  const files = trace.meta.value?.files ?? []
  return files.length > 1
    ? `${base(files[0]!.name)} and ${files.length - 1} other ${files.length === 2 ? 'file' : 'files'}`
    : base(files[0]?.name ?? '')
}
