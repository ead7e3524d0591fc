// The table that a query computes, or a table of the selected spans, of rows, of log records, or of calls between
// services.
import { batch, useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import * as address from './address'
import { set, useAnswer } from './ask'
import * as page from './page'
import { Bars, Choose, none, wrong } from './parts'
import * as search from './search'
import * as selection from './selection'
import type { Table } from './source'
import { count, day, duration, many, moment, plain } from './text'
import * as time from './time'
import * as trace from './trace'

const most = 200

export function TableView() {
  const q = search.text.value.trim(),
    logs = page.view.value === 'logs',
    form = logs ? 'logs' : page.form.value,
    shown = useSignal(most)
  useEffect(() => {
    shown.value = most
  }, [q, form, page.level.value, time.windowText.value])
  const ask = {
    ...search.part(),
    q,
    form,
    level: logs ? page.level.value : '',
    sort: page.order.value,
    first: 0,
    n: Math.min(500, shown.value)
  }
  const sorted = useRef({ names: '', arrivals: 0 })
  const { value: t, failed } = useAnswer('table', ask, logs ? trace.version() : trace.pace())
  // Another table may not have the sorted column. Reset the order, unless the order came with the address, as
  // after Back.
  const names = t?.columns.map(c => c.name).join() ?? ''
  useEffect(() => {
    if (!names) return
    if (sorted.current.names && names !== sorted.current.names && address.arrivals() === sorted.current.arrivals)
      page.order.value = 0
    sorted.current = { names, arrivals: address.arrivals() }
  }, [names])

  // A click on a line adds the line's condition to the query and shows its rows.
  const take = (l: Table['lines'][number], without: boolean) => {
    if (l.row) {
      selection.go(l.row)
      return
    }
    if (!l.where) return
    const base = q
      .replace(
        /\|\s*(count|sum|avg|min|max|stddev|p\d\d|quantile|histogram|values|compare|sort|topk|bottomk|limit|by|select)\b.*$/s,
        ''
      )
      .trim()
    const where = l.where,
      alone = form === 'calls' || !base || base === '{}'
    batch(() => {
      search.text.value = !alone ? base : without ? `!(${where})` : where
      if (alone) search.find()
      else search.add(where.replace(/^{ (.*) }$/, '$1'), without, false)
      page.view.value = 'tree'
      selection.setMode('only')
    })
  }
  const cell = (v: string | number | null, kind: string) =>
    v === null ? (
      ''
    ) : kind === 'duration' ? (
      duration(BigInt(v))
    ) : kind === 'time' ? (
      <span title={day(BigInt(v))}>{moment(BigInt(v))}</span>
    ) : kind === 'number' ? (
      /^-?\d+$/.test(String(v)) ? (
        BigInt(v).toLocaleString('en-US')
      ) : Math.abs(Number(v)) < 100 || Math.abs(Number(v)) >= 1e15 ? (
        Number(Number(v).toPrecision(3)).toString()
      ) : (
        count(Math.round(Number(v) * 10) / 10)
      )
    ) : (
      plain(String(v))
    )
  return (
    <div class="tbv">
      <div class="tool">
        {logs ? (
          <Choose
            label="The lowest level"
            now={page.level.value}
            to={id => {
              page.level.value = id
            }}
            of={[
              ['', 'All'],
              ['info', 'Info'],
              ['warn', 'Warn'],
              ['error', 'Error']
            ]}
          />
        ) : (
          <Choose
            label="Lines of the table"
            now={page.form.value}
            to={id => {
              page.form.value = id
              page.order.value = 0
            }}
            of={[
              [
                '',
                /\|\s*(count|sum|avg|min|max|stddev|p\d\d|quantile|histogram|values|compare)\s*\(/.test(q)
                  ? 'Query'
                  : 'By name'
              ],
              ['rows', 'Rows'],
              ['calls', 'Calls'],
              ['compare', search.otherSide() && 'Compare']
            ]}
          />
        )}
        <span class="q">{t && many(t.total, logs ? 'log record' : 'line')}</span>
        <span class="grow" />
        <button
          class="btn s"
          disabled={!t?.total}
          onClick={() => page.download('entrace.csv', trace.source.file('table', { ...ask, csv: true }))}>
          Save CSV
        </button>
      </div>
      {wrong(failed)}
      {!failed && !t && none('Computing…')}
      {t && t.total === 0 && (
        <p class="none">
          {form === 'calls' ? (
            'No service calls another one.'
          ) : !form && search.found.value?.count ? (
            <>
              No span is selected.{' '}
              <button class="lk" onClick={set(page.form, 'rows')}>
                {many(search.found.value.count, 'row is', 'rows are')} under Rows
              </button>
            </>
          ) : (
            'Nothing is selected.'
          )}
        </p>
      )}
      {t && t.total > 0 && (
        <div class="tbs grow scroll" tabIndex={0} role="region" aria-label="Table">
          <table>
            <thead>
              <tr>
                {t.columns.map((c, i) => {
                  const order = page.order.value,
                    up = order === i + 1 ? 'descending' : order === -i - 1 ? 'ascending' : 'none'
                  return (
                    <th aria-sort={up} class={c.kind}>
                      {c.name === 'attributes' ? (
                        c.name
                      ) : (
                        <button
                          onClick={() => {
                            page.order.value =
                              order === i + 1 ? -i - 1 : order === -i - 1 ? 0 : c.kind === 'text' ? -i - 1 : i + 1
                          }}>
                          {plain(c.name)}
                          {up === 'descending' ? ' ↓' : up === 'ascending' ? ' ↑' : ''}
                        </button>
                      )}
                    </th>
                  )
                })}
                {t.lines.some(l => l.spark) && <th title="Number of rows that begin, over time">over time</th>}
              </tr>
            </thead>
            <tbody>
              {t.lines.map(l => (
                <tr
                  onClick={e => {
                    if (!(e.target as HTMLElement).closest('button') && !getSelection()?.toString()) take(l, e.altKey)
                  }}>
                  {l.values.map((v, i) => {
                    const { kind, name } = t.columns[i]!
                    return (
                      <td
                        class={
                          kind + ((name === 'errors' && v !== '0') || v === 'error' || v === 'ERROR' ? ' err' : '')
                        }
                        title={kind === 'text' && v !== null ? plain(String(v)) : undefined}>
                        {(l.where || l.row) && (i === 0 || name === 'name' || name === 'text') ? (
                          <button
                            class="lk"
                            title={l.where ? `Show ${plain(l.where)}; Alt: all others` : 'Show in the tree'}
                            onClick={e => take(l, e.altKey)}>
                            {cell(v, kind) || '(none)'}
                          </button>
                        ) : (
                          cell(v, kind)
                        )}
                      </td>
                    )
                  })}
                  {l.spark && (
                    <td>
                      <Bars
                        of={l.spark}
                        class="spk"
                        width={l.spark.length * 3}
                        height="14"
                        role="img"
                        aria-label={`over time, at most ${Math.max(1, ...l.spark)}`}
                      />
                    </td>
                  )}
                </tr>
              ))}
            </tbody>
          </table>
          {t.total > t.lines.length && (
            <p class="none">
              {shown.value < 500 ? (
                <button class="lk" onClick={set(shown, 500)}>
                  Show {t.total > 500 ? `500 of ${count(t.total)}` : `all ${count(t.total)}`} lines
                </button>
              ) : (
                `${count(t.total - t.lines.length)} more lines are in the CSV`
              )}
            </p>
          )}
        </div>
      )}
    </div>
  )
}
