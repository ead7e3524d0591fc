// The values of fields of the rows in the window, and the differences of the rows that the query selects.
import { useSignal } from '@preact/signals'
import { flip, useAnswer } from './ask'
import { none } from './parts'
import * as search from './search'
import { count, many, percent, plain } from './text'
import * as trace from './trace'
import { implied } from './why'

export function Facets() {
  const q = search.found.value && !search.problem.value ? search.query.value : '',
    all = useSignal(false)
  const { value: c, failed } = useAnswer('facets', { ...search.part(), q, root: 0 })
  if (!c)
    return (
      <aside class="fac sunk scroll" aria-label="Facets">
        {none(failed || 'Counting…')}
      </aside>
    )
  const against = search.otherSide()
  const hits = (q || against) && c.others > 0 ? c.in : 0,
    total = against ? c.others : c.in + c.others
  const most = 8,
    fields = c.fields.filter(
      f =>
        !hits ||
        !implied(
          q,
          f.field,
          f.values.some(v => v.in === c.in)
        )
    ),
    shown = all.value ? fields : fields.slice(0, most)
  return (
    <aside class="fac sunk scroll" aria-label="Facets" tabIndex={0}>
      <h2>{hits ? 'What differs' : 'Frequent values'}</h2>
      <p class="key flex small soft">
        <span class="el">
          <i /> {against ? `in ${plain(against)}` : 'all in the window'}
        </span>
        {hits > 0 && (
          <span>
            <i class="k2" /> {against ? 'here' : hits === 1 ? 'the hit' : `the ${count(hits)} hits`}
          </span>
        )}
      </p>
      {shown.map(f => (
        <section>
          <h3>
            <code class="mono el">{plain(f.field)}</code>
            {hits > 0 && f.points > 0 && <span class="n">{f.points} points</span>}
          </h3>
          {f.values.map(v => {
            const grey = against ? v.others : v.in + v.others,
              of = grey / Math.max(1, total),
              hit = v.in / Math.max(1, hits)
            return (
              <button
                class="fv apart rel wide cut"
                disabled={!v.where}
                title={`Only ${plain(v.where)}: ${count(grey)} of ${count(total)}${hits > 0 ? `, ${count(v.in)} of ${count(hits)} ${against ? 'here' : 'hits'}` : ''}; Alt: without it`}
                onClick={e => search.add(v.where, e.altKey)}>
                <i class="all abs" style={{ width: of * 100 + '%' }} />
                <span class="el">{plain(v.value)}</span>
                <span class="n">
                  {percent(grey, total, hits > 0 ? '' : undefined)}
                  {hits > 0 && <> → {percent(v.in, hits)}</>}
                </span>
                {hits > 0 && <i class="of abs" style={{ width: hit * 100 + '%' }} />}
              </button>
            )
          })}
          {f.more > 0 &&
            (trace.meta.value!.static === undefined ? (
              <button
                class="lk"
                title="All values, with the number of rows of each"
                onClick={() => search.tableOf(f.field)}>
                all {count(f.more + f.values.length)} values
              </button>
            ) : (
              <p class="q">{count(f.more)} more</p>
            ))}
        </section>
      ))}
      {fields.length > most && (
        <button class="lk" onClick={flip(all)}>
          {all.value ? 'Fewer' : `${many(fields.length - most, 'more attribute')}`}
        </button>
      )}
    </aside>
  )
}
