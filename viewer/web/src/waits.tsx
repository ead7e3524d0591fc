// The waits of a span, according to Go's execution trace in the file.

import { useSignal } from '@preact/signals'
import { type ComponentChildren, Fragment } from 'preact'
import { flip, useAnswer } from './ask'
import { stateColors } from './bars'
import { Frames, Go, none, Section } from './parts'
import * as search from './search'
import type { Frame, Line, MeasuredStep, StateTime } from './source'
import { count, duration, many, plain } from './text'
import * as trace from './trace'

const sum = (list: StateTime[]) => list.reduce((n, t) => n + t.time_nano, 0n)

// Sums is a bar with the time in each state, and its legend.
function Sums({ title, list }: { title: ComponentChildren; list: StateTime[] }) {
  const whole = Number(sum(list)) || 1,
    some = list.filter(t => Number(t.time_nano) >= whole / 200)
  return (
    <div class="sums">
      <span class="q">{title}</span>
      <span class="sumb flex cut" aria-hidden>
        {some.map(t => (
          <i style={{ width: (Number(t.time_nano) / whole) * 100 + '%', background: stateColors[t.state] }} />
        ))}
      </span>
      <p>
        {some.map(t => (
          <Fragment key={t.state}>
            <i class="hue" style={{ background: stateColors[t.state] }} />
            {t.state} {duration(t.time_nano)}{' '}
          </Fragment>
        ))}
      </p>
    </div>
  )
}

const place = (f: Frame) =>
  `${f.function.slice(f.function.lastIndexOf('/') + 1)} ${f.file.replace(/.*[/\\]/, '')}:${f.line}`

// Goroutine is a button that finds the spans of a goroutine.
const Goroutine = ({ n }: { n: number }) => (
  <button class="lk" onClick={() => search.look(`{ span:goroutine = ${n} }`)}>
    goroutine {n}
  </button>
)

const Who = ({
  span,
  of = '',
  goroutine,
  own
}: {
  span: Line | null
  of?: string | undefined
  goroutine: number
  own: number
}) =>
  !span ? (
    <Goroutine n={goroutine} />
  ) : span.row === own ? (
    <>this</>
  ) : (
    <>
      <Go row={span.row}>{plain(span.name)}</Go>
      {of && <span class="q"> {plain(of)}</span>}
    </>
  )

function Wait({ w, row }: { w: MeasuredStep; row: number }) {
  const open = useSignal(false)
  return (
    <div class="says">
      <i class="hue" style={{ background: stateColors[w.state] }} />
      {w.state} {duration(w.duration_nano)}{' '}
      {w.via && (
        <>
          in <code class="mono">{plain(w.via)}</code>{' '}
        </>
      )}
      {w.frame && (
        <>
          at{' '}
          <button class="lk mono" aria-expanded={open.value} onClick={flip(open)}>
            {plain(place(w.frame))}
          </button>
        </>
      )}
      {w.ended_by ? (
        <>
          , ended by{' '}
          {w.ended_by.span?.row === row ? (
            <>
              its <Goroutine n={w.ended_by.goroutine} />
            </>
          ) : (
            <Who span={w.ended_by.span} of={w.ended_by.other_request} goroutine={w.ended_by.goroutine} own={row} />
          )}
          {w.ended_by.frame && (
            <>
              {' '}
              at <code class="mono">{plain(place(w.ended_by.frame))}</code>
            </>
          )}
        </>
      ) : ['mutex', 'sync', 'chan'].includes(w.state) ? (
        ', not ended by anybody yet'
      ) : (
        ''
      )}
      {open.value && <Frames stack={w.stack.map(f => `${f.function}\n\t${f.file}:${f.line}\n`).join('')} />}
    </div>
  )
}

export function Waits({ row }: { row: number }) {
  const { value: w, asked } = useAnswer('waited', trace.meta.value!.goroutines && { row })
  if (!asked) return null
  if (!w)
    return (
      <Section title="What it waited for">{none('The execution trace in the file does not reach this span.')}</Section>
    )
  return (
    <section class="sec waits">
      <h3>What it waited for, measured{w.join === 'matched' && ', found by name and time'}</h3>
      {w.open && <p class="q">It had not ended when the execution trace was written.</p>}
      {!w.whole && (
        <p class="q">
          The execution trace tells of {Math.floor(w.known * 100)}
          {'\u202f'}% of it.
        </p>
      )}
      <Sums
        title={
          <>
            Its <Goroutine n={w.goroutine} />
          </>
        }
        list={w.own}
      />
      {w.whole && <Sums title="What it waited for" list={w.sums} />}
      {w.waits.length > 0 && (
        <>
          <h4>Longest waits</h4>
          {w.waits.map(x => (
            <Wait key={x.from_unix_nano} w={x} row={row} />
          ))}
        </>
      )}
      {w.whole && w.steps.length > 0 && (
        <>
          <h4>Step by step</h4>
          <ol class="stp">
            {w.steps.map(x => (
              <li style={{ paddingLeft: Math.min(4, x.depth) * 10 + 'px' }}>
                <i class="hue" style={{ background: stateColors[x.state] }} />
                <span class="n">{duration(x.duration_nano)}</span> {x.state} <span class="q">in</span>{' '}
                <Who span={x.span} of={x.other_request} goroutine={x.goroutine} own={row} />
                {x.frame && (
                  <>
                    {' '}
                    <code class="mono q">
                      {x.via && plain(x.via) + ' at '}
                      {plain(place(x.frame))}
                    </code>
                  </>
                )}
                {x.times! > 1 && <b>, {count(x.times!)}×</b>}
                {x.followed && <span class="q">, meanwhile:</span>}
              </li>
            ))}
          </ol>
          {w.rest > 0 && <p class="q">{many(w.rest, 'shorter step')} left out.</p>}
        </>
      )}
    </section>
  )
}
