// The panel that says why a span took so long or failed. It compares the span with spans of the same name, and shows
// the properties that the slow or the failed spans share.
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { pull, spot, useAnswer } from './ask'
import { clamp, stateColors } from './bars'
import { Choose, Go, none, Place, Section } from './parts'
import * as search from './search'
import * as selection from './selection'
import type { Contrast, Step, Why } from './source'
import { count, duration, many, moment, percent, plain } from './text'
import * as time from './time'
import * as trace from './trace'

export function WhyOf({ row }: { row: number }) {
  const of = useSignal('')
  const answer = useAnswer('why', {
    ...search.part(),
    q: search.otherSide() && search.query.value,
    root: 0,
    row,
    of: of.value
  })
  const w = answer.asked?.row === row ? answer.value : null // otherwise the answer is about the previous row
  useEffect(() => {
    if (of.value.includes('-')) of.value = ''
  }, [w?.where]) // a drawn range is valid for one name only
  const path = useAnswer('critical', { row })
  const p = path.asked?.row === row ? path.value : null // otherwise the path still belongs to the previous row
  if (!w) return none(answer.failed || 'Comparing it with its namesakes…')
  const took = w.took_nano,
    low = w.of === 'failed' ? undefined : w.least_nano,
    high = w.most_nano
  const slowest = w.count > 0 && w.faster === w.count - (w.open ? 0 : 1)
  const without = w.without && p && (
    <>
      {' '}
      <button class="lk" onClick={() => search.look(w.without)}>
        Find each {plain(p.span.name)} without it
      </button>
    </>
  )
  const longest = (p?.steps ?? []).reduce<Step | null>(
    (a, l) => (l.span && (!a || l.duration_nano > a.duration_nano) ? l : a),
    null
  )
  const told = w.shares.fields[0]?.values[0]
  return (
    <>
      {p && longest?.span && (
        <p class="box card edge sunk">
          <b>{duration(longest.duration_nano)}</b> of the {duration(p.duration_nano)} of {plain(p.span.name)} are in{' '}
          <Go row={longest.span.row}>
            {(longest.count ?? 0) > 1 && `${count(longest.count!)} × `}
            {plain(longest.span.name)}
          </Go>
          .{' '}
          {told && w.shares.others > 0 && (
            <>
              <code class="mono">{plain(told.where)}</code> is true of {percent(told.in, w.shares.in)} of the {w.of}{' '}
              ones and {percent(told.others, w.shares.others)} of the others.{' '}
            </>
          )}
          {w.of && !w.among && <span class="q">This one is among the others.</span>}
        </p>
      )}
      {w.count < 2 ? (
        <Section title="The only one of this name">
          <p class="says">
            {took === null ? '' : duration(took)}
            {without}
          </p>
        </Section>
      ) : (
        <Section title={`Among ${count(w.count)} of this name`}>
          {w.outside && <p class="says q">It is outside the chosen time, and compared with all of its name.</p>}
          <p class="says">
            {took === null || !w.count ? (
              'None of them has ended.'
            ) : (
              <>
                {slowest && !w.open ? (
                  <b>The slowest</b>
                ) : (
                  <>
                    {w.open ? 'Open longer' : 'Slower'} than <b>{percent(w.faster, w.count)}</b>
                    {slowest ? ' of those that ended' : ''}
                  </>
                )}
                ; median {duration(w.median_nano)}
                {w.failed > 0 && <>; {count(w.failed)} failed</>}.{' '}
                {w.where && (
                  <button class="lk" onClick={() => search.look(w.where)}>
                    Find all of the name
                  </button>
                )}
              </>
            )}
            {without}
          </p>
          {w.bars.length > 0 && (
            <Histogram
              w={w}
              low={low}
              high={high}
              draw={part => {
                of.value = part
              }}
            />
          )}
        </Section>
      )}
      {w.against && (
        <Section title={`Against ${plain(search.otherSide())}`}>
          <p class="says">
            {w.against.there.count ? (
              <>
                There {many(w.against.there.count, 'span')} of the name, median {duration(w.against.there.median_nano)},
                here {count(w.against.here.count)}, median {duration(w.against.here.median_nano)};{' '}
                {count(w.against.there.failed)} failed there, {count(w.against.here.failed)} here.
              </>
            ) : (
              'It has no span of this name that has ended.'
            )}
          </p>
          {w.against.there.count > 0 && <Shares c={w.against.shares} of="here" others="there" />}
        </Section>
      )}
      {w.of && (
        <Section
          title={`What the ${w.of} ones share (${count(w.shares.in)}${low === undefined ? '' : high ? ` from ${duration(low)} to ${duration(high)}` : ` over ${duration(low)}`}, and ${many(w.shares.others, 'other')})`}>
          {w.shares.others > 0 && ((w.slow > 0 && w.failed > 0) || high > 0n) && (
            <Choose
              label="Spans to compare with the others"
              now={w.of}
              to={id => {
                if (id !== 'drawn') of.value = id
              }}
              of={[
                ['slow', w.slow > 0 && 'Slow ones'],
                ['failed', w.failed > 0 && 'Failed ones'],
                ['drawn', high > 0n && 'Drawn ones']
              ]}
            />
          )}
          {(w.shares.fields.length > 0 || !w.request.fields.length) && <Shares c={w.shares} of={w.of} />}
          {w.request.fields.length > 0 && (
            <>
              <p class="q">Of their requests:</p>
              <Shares c={w.request} of={w.of} add={where => w.where && search.look(`{ ${where} } >> ${w.where}`)} />
            </>
          )}
          {w.follows.length > 0 && <p class="q says">Follows from it: {plain(w.follows.join(', '))}</p>}
          {w.period && (
            <p class="says">
              {w.period.in === 1 ? 'All' : percent(w.period.in, 1)} of the {w.of} ones began{' '}
              <button
                class="lk"
                title="Choose this part of the time"
                onClick={() => time.choose({ from: w.period!.from_unix_nano, to: w.period!.to_unix_nano })}>
                within {duration(w.period.to_unix_nano - w.period.from_unix_nano)} from{' '}
                {moment(w.period.from_unix_nano, 3)}
              </button>
              , in {percent(w.period.share, 1)} of the time.
            </p>
          )}
          <p class="says">
            {w.where && (
              <button
                class="lk"
                onClick={() =>
                  search.look(
                    w.where.replace(
                      / }$/,
                      (low === undefined ? ' && (span:failed || level >= error)' : ` && duration >= ${low}ns`) +
                        (high ? ` && duration < ${high}ns }` : ' }')
                    )
                  )
                }>
                Find the {w.of} ones
              </button>
            )}
          </p>
        </Section>
      )}
      {w.beside.length > 0 && (
        <Section title="What ran meanwhile">
          {w.beside.map(b => (
            <p class="says">
              <Go row={b.row}>{plain(b.name)}</Go>
              {b.service && <span class="q"> {plain(b.service)}</span>}
              {b.count > 1 && <>, {count(b.count)}×</>}, for {duration(b.took_nano)} of it
              {b.open && <b class="warn"> never ended</b>}.
              {w.of && (
                <span class="q">
                  {' '}
                  It ran when {percent(b.in, 1)} of the {w.of} ones began, and for most of their time; of the others{' '}
                  {percent(b.others, 1)}.
                </span>
              )}
            </p>
          ))}
        </Section>
      )}
      {w.cpu && (
        <Section
          title={`On a processor for ${duration(w.cpu.ofSpan ? w.cpu.own_nano : w.cpu.all_nano)}${w.cpu.ofSpan ? '' : ', all of the name'}, sampled`}>
          <table class="fns wide">
            <thead>
              <tr>
                <th>function</th>
                <th class="n">with calls</th>
                <th class="n">own</th>
              </tr>
            </thead>
            <tbody>
              {w.cpu.functions.map(f => (
                <tr>
                  <td class="el" title={plain(f.name)}>
                    <code class="mono">{plain(f.name.slice(f.name.lastIndexOf('/') + 1))}</code>{' '}
                    {f.file && <Place file={f.file} line={f.line} short />}
                  </td>
                  <td class="n">{percent(f.total, 1)}</td>
                  <td class="n">{percent(f.self, 1)}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {!w.cpu.ofSpan && (
            <p class="q">
              {w.cpu.own_nano === 0n ? 'No sample is of this one' : `${duration(w.cpu.own_nano)} are of this one`}:
              there are 100 a second.
            </p>
          )}
        </Section>
      )}
      {p && p.steps.length > 0 && (p.inferred || p.span.row !== row) && (
        <Section
          title={`Critical path of ${plain(p.span.name)}, ${duration(p.duration_nano)}, ${p.inferred ? 'inferred' : 'measured'}`}>
          <ol class="path">
            {p.steps.map(({ span, state, goroutine, count: n = 0, duration_nano: took }) => (
              <li>
                <button
                  class="bar rel wide"
                  aria-current={span?.row === row}
                  disabled={!span}
                  onClick={() => span && selection.go(span.row)}>
                  {state ? (
                    <i class="hue" style={{ background: stateColors[state] }} />
                  ) : (
                    <i class="sw rigid" style={trace.hue(span?.service, span?.name)} />
                  )}
                  <span class="el grow">
                    {span ? plain(span.name) : `goroutine ${goroutine}`}
                    {n > 1 && <b> {count(n)}×</b>}
                    {state && <span class="q"> {state}</span>}
                  </span>
                  <span class="n">{duration(took)}</span>
                  <i
                    class="pb abs"
                    style={{ width: ((Number(took) / Number(p.duration_nano)) * 100).toFixed(1) + '%' }}
                  />
                </button>
              </li>
            ))}
          </ol>
          {p.rest > 0 && <p class="q">{many(p.rest, 'shorter step')} left out.</p>}
        </Section>
      )}
    </>
  )
}

// Shares shows two bars for each value that is more frequent in the first set.
function Shares({
  c,
  of,
  others = 'others',
  add = search.add
}: {
  c: Contrast
  of: string
  others?: string
  add?: (where: string, not: boolean) => void
}) {
  if (!c.fields.length) return none('No attribute distinguishes them from the others.')
  return (
    <>
      {c.fields.map(f =>
        f.values.slice(0, 2).map(v => (
          <button class="shr grid center" title={`Only ${plain(v.where)}`} onClick={e => add(v.where, e.altKey)}>
            <code class="mono el">{plain(v.where)}</code>
            <span class="q small">{of}</span>
            <i class="b1">
              <i style={{ width: (v.in / Math.max(1, c.in)) * 100 + '%' }} />
            </i>
            <span class="n">{percent(v.in, c.in)}</span>
            <span class="q small">{others}</span>
            <i>
              <i style={{ width: (v.others / Math.max(1, c.others)) * 100 + '%' }} />
            </i>
            <span class="n">{percent(v.others, c.others)}</span>
          </button>
        ))
      )}
    </>
  )
}

// implied reports whether the query itself requires a value of the field. The argument all says whether all hits have
// the value.
export const implied = (q: string, field: string, all: boolean) =>
  all && (q.includes(field.replace(/^\.|^resource\./, '')) || (field === 'status' && /span:failed/.test(q)))

// HitsOf is the panel without a selected span. It shows the properties that the hits share.
export function HitsOf() {
  const q = search.query.value
  const { value: c, failed } = useAnswer('facets', q && { ...search.part(), q, root: 0, alike: true })
  if (!c) return none(failed || 'Comparing the hits with all others…')
  const fields = c.fields
    .map(f => ({
      ...f,
      values: f.values.filter(v => !v.chance && v.in / Math.max(1, c.in) > v.others / Math.max(1, c.others))
    }))
    .filter(f => f.values.length && !implied(q, f.field, f.values[0]!.in === c.in))
  const against = search.otherSide()
  return (
    <Section
      title={
        against
          ? `What the hits have more often than in ${plain(against)} (${count(c.in)}, and ${count(c.others)} there)`
          : `What the hits share (${count(c.in)}, and ${many(c.others, 'other')} of their names)`
      }>
      <Shares c={{ ...c, fields }} of={against ? 'here' : 'hits'} others={against ? 'there' : 'others'} />
    </Section>
  )
}

// A Histogram shows durations on a logarithmic axis. The user can draw a range over the axis, to compare the spans in
// the range with the others.
function Histogram({
  w,
  low,
  high,
  draw
}: {
  w: Why
  low: bigint | undefined
  high: bigint
  draw: (part: string) => void
}) {
  const box = useRef<HTMLDivElement>(null),
    part = useSignal<[number, number] | null>(null)
  const n = w.bars.length,
    most = Math.max(...w.bars.map(b => b.count))
  const took = w.took_nano
  const at = (d: bigint) => {
    // a place on the axis, from 0 to the number of bars
    const i = w.bars.findIndex(b => d < b.to_nano)
    if (i < 0) return n
    const b = w.bars[i]!,
      from = b.from_nano,
      to = b.to_nano
    return d <= from ? i : i + Number(((d - from) * 1000n) / (to - from)) / 1000
  }
  const place = (e: PointerEvent) => {
    const { x, width } = spot(box, e)
    return clamp(0, Math.round((x / width) * n), n)
  }
  const begin = (e: PointerEvent) => {
    if (e.button) return
    const from = place(e)
    pull<[number, number]>(
      e,
      part,
      e => {
        const to = place(e)
        return [Math.min(from, to), Math.max(from, to)]
      },
      p => {
        if (p && p[0] !== p[1]) draw(`${w.bars[p[0]]!.from_nano}-${w.bars[p[1] - 1]!.to_nano}`)
      }
    )
  }
  const labels = [0, Math.floor(n / 2), n - 1].filter((v, i, all) => all.indexOf(v) === i)
  return (
    <div class="hist">
      <div
        class="hb under2 crosshair rel flex"
        ref={box}
        role="img"
        aria-label={`Histogram of ${count(w.count)} durations, from ${duration(w.bars[0]!.from_nano)} to ${duration(w.bars[n - 1]!.to_nano)}`}
        title="Drag over bars to compare their spans with the others"
        onPointerDown={begin}>
        {w.bars.map((b, i) => (
          <i
            class={
              (low !== undefined && b.to_nano > low && (!high || b.from_nano < high) ? 'hi' : '') +
              (part.value && (i < part.value[0] || i >= part.value[1]) ? ' out' : '')
            }
            style={{ height: b.count ? Math.max(3, (b.count / most) * 100) + '%' : '0' }}
            title={`${duration(b.from_nano)}: ${count(b.count)}`}
          />
        ))}
        {took !== null && <b style={{ left: (at(took) / n) * 100 + '%' }} />}
      </div>
      <div class="hl q rel" aria-hidden>
        {labels.map(i => (
          <span style={i === n - 1 && n > 1 ? { right: 0 } : { left: (i / n) * 100 + '%' }}>
            {duration(i === n - 1 && n > 1 ? w.bars[i]!.to_nano : w.bars[i]!.from_nano)}
          </span>
        ))}
      </div>
    </div>
  )
}
