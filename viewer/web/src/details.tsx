// The panel with everything about the selected row.

import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { set, useAnswer } from './ask'
import { Icon, IconButton, Level } from './icons'
import { folded } from './indent'
import { markdown } from './issue'
import * as page from './page'
import { Frames, Go, none, Place, Section } from './parts'
import * as search from './search'
import * as selection from './selection'
import type { Attribute, Entry, Stack, Place as Step } from './source'
import { Talk } from './talk'
import {
  count,
  day,
  duration,
  fieldName,
  groups,
  headline,
  isLong,
  lines,
  many,
  moment,
  plain,
  pretty,
  quoted,
  short,
  sql,
  zone
} from './text'
import * as trace from './trace'
import { Waits } from './waits'
import { HitsOf, WhyOf } from './why'

const levelOfName = (name: string) => ['TRACE', 'DEBUG', 'INFO', 'WARN', 'ERROR'].indexOf(name)

export function Details() {
  const row = page.selected.value,
    { value, failed } = useAnswer('entry', row > 0 && { row }, trace.version())
  useEffect(() => {
    page.entry.value = value
  }, [value])
  useEffect(() => {
    const late = setTimeout(() => {
      if (page.entry.value?.row !== row) page.entry.value = null
    }, 500) // the details of the previous row stay for this time
    return () => clearTimeout(late)
  }, [row])
  const e = page.entry.value
  if (!row || !e)
    return (
      <aside class="det ground scroll" aria-label="Details" tabIndex={0}>
        {row ? (
          none(failed ? `This row cannot be read: ${failed}` : 'Reading…')
        ) : search.query.value && search.found.value?.count ? (
          <HitsOf />
        ) : (
          none('Select a row to see everything that was recorded about it.')
        )}
      </aside>
    )
  const span = e.role === 'span'
  const tabs = (
    [
      [
        'why',
        span && 'Why',
        <>
          <Reasons e={e} />
          <Waits key={e.row} row={e.row} />
          <WhyOf row={e.row} />
        </>
      ],
      ['attributes', 'Attributes', <Attributes e={e} />],
      ['talk', e.talk && 'Conversation', <Talk row={e.row} />],
      ['logs', `Logs ${count(e.logs)}`, <Logs row={row} />],
      ['json', 'JSON', <JSONOf e={e} />]
    ] as const
  ).filter(([, label]) => label)
  const shown = tabs.find(([id]) => id === page.tab.value) ?? tabs.find(([id]) => id === 'attributes')!
  return (
    <aside class="det ground scroll" aria-label="Details" tabIndex={0}>
      <div class="dh under">
        <h2 class="bar break">
          {span ? (
            <i class="sw rigid" style={trace.hue(e.service, e.name)} />
          ) : (
            <Level level={levelOfName(e.level)} event={e.role === 'event'} />
          )}
          <span class="ttl grow cut">{plain(headline(titleOf(e)))}</span>
          <IconButton class="ib only-n" icon="close" label="Close the details" onClick={set(page.sheet, false)} />
          <IconButton
            icon="copy"
            label="Copy for an issue"
            title="Copy for an issue: this row and the rows below it, as Markdown"
            onClick={() => copyIssue(e)}
          />
          {e.below > 0 && (
            <IconButton
              icon="root"
              label="Show only this row and the rows below it"
              title="Show only this row and the rows below it (r)"
              onClick={() => selection.subtree(e.row)}
            />
          )}
        </h2>
        {e.path.length > 0 && <Path key={e.row} path={e.path} />}
        <dl class="facts apart wrap">
          {span ? (
            <>
              <Fact name="Duration" value={e.open ? unended(e) : e.took_nano ? duration(e.took_nano) : '-'} />
              <Fact name="Self" value={e.self_nano && !e.open ? duration(e.self_nano) : '-'} />
            </>
          ) : (
            <Fact name="Level" value={e.level} />
          )}
          <Fact
            name={span ? 'Start' : 'Time'}
            value={e.start_unix_nano ? moment(e.start_unix_nano) : '-'}
            title={
              e.start_unix_nano
                ? `${day(e.start_unix_nano)}, ${moment(e.start_unix_nano, 9)} ${zone(e.start_unix_nano)}`
                : ''
            }
          />
          {span ? <Fact name="Status" value={e.status} /> : <Fact name="Service" value={e.service || '-'} />}
        </dl>
      </div>
      <div class="dt ground under flex" role="tablist">
        {tabs.map(([id, label]) => (
          <button role="tab" aria-selected={shown[0] === id} onClick={set(page.tab, id)}>
            {label}
          </button>
        ))}
      </div>
      <div class="db" role="tabpanel">
        {shown[2]}
      </div>
    </aside>
  )
}

// copyIssue copies a row and the rows below it, with the command that shows them.
async function copyIssue(e: Entry) {
  try {
    const r = await trace.source.ask('rows', {
      root: e.row,
      depth: selection.maxDepth,
      toggled: [],
      only: '',
      window: '',
      least: 0n,
      first: 0,
      n: 300
    })
    page.copy(markdown(`entrace: ${headline(titleOf(e))} in ${e.id}`, r)).then(ok => {
      if (ok) page.tell('Copied as Markdown')
    })
  } catch (x) {
    page.tell(x instanceof Error ? x.message : 'It cannot be copied')
  }
}

// titleOf returns the text that names an entry. For a log record, this is the message.
const titleOf = (e: Entry) => (e.role === 'log' ? (e.message ?? '') : e.name)

// unended says how long a span without an end has been open.
function unended(e: Entry): string {
  const m = trace.meta.value!,
    file = m.files.findIndex(f => f.name === e.id.slice(0, e.id.lastIndexOf('#')))
  const since = e.took_nano ? duration(e.took_nano) : ''
  return m.states[file]?.word === 'running' ? `running for ${since}` : `never ended${since && ', ≥ ' + since}`
}

// Path has links to the rows above the selected row.
function Path({ path }: { path: Step[] }) {
  const all = useSignal(false)
  const { first, hidden, last } = all.value ? { first: path, hidden: 0, last: [] } : folded(path)
  const step = (p: Step) => (
    <button class="lk" onClick={() => selection.go(p.row)} title={plain(headline(p.name))}>
      {plain(short(p.name, 61))}
    </button>
  )
  const steps = [
    ...first.map(step),
    ...(hidden
      ? [
          <button class="lk" onClick={set(all, true)}>
            {many(hidden, 'level')} more
          </button>
        ]
      : []),
    ...last.map(step)
  ]
  return (
    <div class="p break q">
      {steps.map((step, i) => (
        <>
          {i > 0 && ' › '}
          {step}
        </>
      ))}
    </div>
  )
}

const Fact = ({ name, value, title = '' }: { name: string; value: string; title?: string }) => (
  <div title={title}>
    <dt>{name}</dt>
    <dd>{plain(value)}</dd>
  </div>
)

function Attributes({ e }: { e: Entry }) {
  const filter = useSignal('')
  const part = filter.value.toLowerCase()
  const some = (list: Attribute[] | null) =>
    (list ?? [])
      .map((a, n) => ({ ...a, n }))
      .filter(a => !part || a.size || a.name.toLowerCase().includes(part) || a.value.toLowerCase().includes(part))
  const identity: [string, string, string][] = [
    ['kind', e.role === 'span' ? e.kind : '', `kind = ${e.kind}`],
    ['service', e.service, `service = ${quoted(e.service)}`],
    ['trace:id', e.trace, `trace:id = "${e.trace}"`],
    ['span:id', e.span, `span:id = "${e.span}"`],
    ['entry', e.id, '']
  ]
  const all = some(e.attributes)
  return (
    <>
      <div class="af bar q">
        <Icon name="find" />
        <input
          type="search"
          placeholder="Search attributes"
          aria-label="Search attributes"
          value={filter.value}
          onInput={ev => {
            filter.value = ev.currentTarget.value
          }}
        />
      </div>
      {e.role !== 'span' && <Reasons e={e} />}
      {e.role !== 'log' && isLong(e.name) && (
        <Section title="Name">
          <pre class="code">{lines(e.name)}</pre>
        </Section>
      )}
      {e.message && (e.role !== 'log' || isLong(e.message)) && (
        <Section title="Message">
          <pre class="code">{lines(e.message)}</pre>
        </Section>
      )}
      {groups(all).map(([title, list]) => (
        <Section title={title}>
          {list.map(a => (
            <One key={`${e.row} ${a.n}`} a={a} n={a.n} row={e.row} />
          ))}
        </Section>
      ))}
      {e.links.length > 0 && (
        <Section title="Links">
          {e.links.map(l => (
            <Plain name={l.to ? 'to' : 'not in this file'} value={l.trace + ' ' + l.span}>
              {l.to ? (
                <Go row={l.to.row}>{plain(l.to.name)}</Go>
              ) : (
                <span class="mono">
                  {plain(l.trace)} {plain(l.span)}
                </span>
              )}
              {(l.attributes ?? []).map(a => (
                <div>
                  {plain(a.name)}={plain(a.value)}
                </div>
              ))}
            </Plain>
          ))}
        </Section>
      )}
      {(e.file || e.target) && (
        <Section title="Code">
          {e.file && (
            <Plain name="file" value={e.file}>
              <Place file={e.file} line={e.line} />
            </Plain>
          )}
          {e.target && <Plain name="target" value={e.target} query={`target = ${quoted(e.target)}`} />}
        </Section>
      )}
      <Section title="Identity">
        {identity
          .filter(([, v]) => v)
          .map(([name, value, q]) => (
            <Plain name={name} value={value} query={q} />
          ))}
      </Section>
      {some(e.resource).length > 0 && (
        <details class="sec" open={!!part}>
          <summary>Resource, {many(e.resource!.length, 'attribute')}</summary>
          {some(e.resource).map(a => (
            <One key={`${e.row} ${a.n}`} a={a} n={a.n} row={e.row} scope="resource" />
          ))}
        </details>
      )}
    </>
  )
}

// Reasons shows the reasons in the trace why a span failed or does not end.
const Reasons = ({ e }: { e: Entry }) => (
  <>
    {(e.description || e.exception || e.inner) && (
      <Section title="Why it failed">
        {e.description && <pre class="code err">{lines(e.description)}</pre>}
        {e.exception && (
          <>
            <pre class="code err">{lines([e.exception.type, e.exception.message].filter(Boolean).join(': '))}</pre>
            {e.exception.stack && <Frames stack={e.exception.stack} />}
            <Go row={e.exception.row}>To the exception</Go>
          </>
        )}
        {e.inner && (
          <p class="says">
            Below it, <Go row={e.inner.row}>{plain(e.inner.name)}</Go>
          </p>
        )}
      </Section>
    )}
    {e.stacks.map(k => (
      <Stacked k={k} of={e.stacksOf} />
    ))}
  </>
)

// Stacked shows the stacks of goroutines that worked for a span without an end. If the stacks belong to a span above,
// of is the name of that span.
const Stacked = ({ k, of }: { k: Stack; of?: string | undefined }) => (
  <Section title={`In ${plain(k.in)} at ${moment(k.time_unix_nano, 3)}`}>
    <p class="q">
      {k.count === '1' ? 'a goroutine' : plain(k.count) + ' goroutines'} that worked for {of ? plain(of) : 'it'}
    </p>
    <Frames stack={k.stack} here={k.in} />
  </Section>
)

const Actions = ({ query, value }: { query: string; value: string }) => (
  <span class="ka round abs flex">
    {query &&
      (
        [
          ['Only ', 'plus'],
          ['Without ', 'minus']
        ] as const
      ).map(([what, icon]) => (
        <IconButton class="" icon={icon} label={what + query} onClick={() => search.add(query, icon === 'minus')} />
      ))}
    <IconButton class="" icon="copy" label="Copy the value" onClick={() => page.copy(value)} />
  </span>
)

// Plain shows the name and the value of an attribute, or the children in place of the value, with buttons for the
// value.
const Plain = ({
  name,
  value,
  query = '',
  children = plain(value)
}: {
  name: string
  value: string
  query?: string
  children?: ComponentChildren
}) => (
  <div class="kv grid rel" tabIndex={-1}>
    <span class="k soft break mono">{name}</span>
    <span class="v break">{children}</span>
    <Actions query={query} value={value} />
  </div>
)

// One is the nth attribute of a row, or of its resource.
function One({ a, n, row, scope = '' }: { a: Attribute; n: number; row: number; scope?: string }) {
  const whole = useSignal<string | null>(null)
  const value = whole.value ?? a.value
  const kind = a.kind.toLowerCase()
  const shown = kind !== 'string' ? value : /^(db\.(query\.text|statement))$/.test(a.name) ? sql(value) : pretty(value)
  const long = shown.includes('\n') || shown.length > 160
  const text = a.literal ?? (kind === 'string' ? quoted(a.value) : a.value)
  const query = a.size || !text ? '' : `${scope}${fieldName(a.name)} = ${text}`
  const all = async () => {
    const e = await trace.source.ask('entry', { row, all: true })
    whole.value = (scope ? (e.resource ?? []) : e.attributes)[n]?.value ?? a.value
  }
  return (
    <div class={'kv grid rel' + (long ? ' long' : '')} tabIndex={-1}>
      <span class="k soft break mono">{plain(a.name)}</span>
      {long ? (
        /(^|\.)(stack|stacktrace)$/.test(a.name) ? (
          <Frames stack={shown} />
        ) : (
          <pre class="code v">{lines(shown)}</pre>
        )
      ) : (
        <span class={'v break' + (kind === 'string' ? '' : ' num')} title={kind}>
          {plain(shown)}
        </span>
      )}
      {a.size && whole.value === null && (
        <>
          {trace.meta.value!.static === undefined && (
            <button class="lk" onClick={all}>
              Show all {count(a.size)} bytes
            </button>
          )}
          <span class="q">
            {' '}
            the first {count(new Blob([a.value]).size)} of {count(a.size)} bytes are shown and searched
          </span>
        </>
      )}
      <Actions query={long ? '' : query} value={value} />
    </div>
  )
}

function Logs({ row }: { row: number }) {
  const { value: r, failed } = useAnswer('logs', { row }, trace.version(), 0)
  if (!r) return none(failed ? `The log records cannot be read: ${failed}` : 'Reading…')
  if (!r.total) return none('There are no log records at this row or below.')
  return (
    <div>
      {r.logs.map(l => (
        <button class="lg under grid wide" onClick={() => selection.go(l.row)}>
          <time>{l.time_unix_nano ? moment(l.time_unix_nano) : ''}</time>
          <Level level={levelOfName(l.level)} />
          <span>
            {plain(l.text)} <span class="q">{plain(l.more)}</span>
            {l.in && <span class="note"> in {plain(l.in)}</span>}
          </span>
        </button>
      ))}
      {r.total > r.logs.length && none(`${count(r.total - r.logs.length)} more are not shown.`)}
    </div>
  )
}

function JSONOf({ e }: { e: Entry }) {
  const body = JSON.stringify({ ...e, path: undefined }, (_, v) => (typeof v === 'bigint' ? String(v) : v), 2).replace(
    /(_nano": )"(-?\d+)"/g,
    '$1$2'
  )
  return (
    <div class="sec">
      <button class="btn s" onClick={() => page.copy(body)}>
        <Icon name="copy" /> Copy
      </button>
      <pre class="code">{lines(body)}</pre>
    </div>
  )
}
