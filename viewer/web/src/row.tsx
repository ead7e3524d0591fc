// A row of the tree.
import { useEffect, useRef } from 'preact/hooks'
import { Icon, Level } from './icons'
import type { indents } from './indent'
import * as page from './page'
import * as search from './search'
import * as selection from './selection'
import {
  isError,
  isExpanded,
  isHit,
  isOpen,
  isParent,
  levelOf,
  roleEvent,
  roleOf,
  roleSpan,
  type TreeRow
} from './source'
import { count, duration, many, marked, moment, plain, written } from './text'
import * as trace from './trace'

const narrow = matchMedia('(max-width:720px)'),
  coarse = matchMedia('(pointer:coarse)')
export const phone = () => narrow.matches
export const rowHeight = () => (!phone() ? 22 : coarse.matches ? 46 : 36)
export const durationWidth = () => (written.dated ? 130 : 86) // in pixels; most of it is for a time of day

// says returns the text of a row for screen readers.
export const says = ({ name, flags: f, took_nano: took, below }: TreeRow) =>
  [
    plain(name),
    roleOf(f) !== roleSpan ? '' : isOpen(f) ? 'never ended' : duration(took ?? 0n),
    below ? many(below, 'row below', 'rows below') : '',
    isError(f) ? 'error' : ''
  ]
    .filter(Boolean)
    .join(', ')

export function Row({
  i,
  at,
  parent,
  top,
  columns,
  indent,
  hits = 0,
  unreadable,
  onSelect
}: {
  i: number
  at: TreeRow | null
  parent: string
  top: number
  columns: string
  indent: ReturnType<typeof indents>
  hits?: number // below the row, if it is closed
  unreadable?: boolean
  onSelect: () => void
}) {
  const el = useRef<HTMLDivElement>(null)
  const row = at ? at.row : -1
  const isSelected = row === page.selected.value && i >= 0
  useEffect(() => {
    if (isSelected && document.activeElement?.closest('.rows')) el.current?.focus({ preventScroll: true })
  }, [isSelected])
  if (!at)
    return (
      <div class="r abs grid center wait" role="row" style={{ top: top + 'px', gridTemplateColumns: columns }}>
        <div class="nm bar tall cut" role="gridcell">
          {unreadable ? 'this row cannot be read' : '…'}
        </div>
      </div>
    )
  const { flags: f, depth, service, took_nano: took } = at,
    role = roleOf(f)
  const closed = isParent(f) && !isExpanded(f)
  const dim = search.only.value !== '' && !isHit(f)
  const label = plain(at.name) || '(no name)'
  const words = isHit(f) ? search.words.value : []
  const shown = (text: string) =>
    words.length ? marked(text, words).map((part, i) => (i % 2 ? <mark>{part}</mark> : part)) : text
  return (
    <div
      ref={el}
      role="row"
      class={
        'r abs grid center' +
        (isHit(f) ? ' hit' : '') +
        (dim ? ' dim' : '') +
        (role === roleSpan ? '' : ' log') +
        (isError(f) ? ' bad' : '')
      }
      data-row={row}
      tabIndex={isSelected ? 0 : -1}
      aria-level={depth + 1}
      aria-rowindex={i < 0 ? undefined : i + 1}
      aria-selected={isSelected}
      aria-expanded={isParent(f) ? isExpanded(f) : undefined}
      style={{ top: top + 'px', gridTemplateColumns: columns }}
      onClick={onSelect}
      onDblClick={() => {
        if (isParent(f)) selection.subtree(row)
      }}>
      <div
        class="nm bar tall cut"
        role="gridcell"
        style={{ paddingLeft: 8 + Math.max(0, depth - indent.base) * indent.step + 'px' }}>
        {isParent(f) ? (
          <button
            class="tw round grid rigid"
            tabIndex={-1}
            aria-label={closed ? 'Open' : 'Close'}
            onClick={e => {
              e.stopPropagation()
              selection.toggle(row)
            }}
            onDblClick={e => e.stopPropagation()}>
            <span class={closed ? 'chev grid' : 'chev grid o'}>
              <Icon name="chevron" />
            </span>
          </button>
        ) : (
          <span class="tw round grid rigid" />
        )}
        {role === roleSpan ? (
          <i class="sw rigid" style={trace.hue(service, at.name)} />
        ) : (
          <Level level={levelOf(f)} event={role === roleEvent} />
        )}
        <span class="t el" title={label}>
          {shown(label)}
        </span>
        {service !== parent && role === roleSpan && trace.meta.value!.services.length > 1 && (
          <span class="svc el q">{plain(service)}</span>
        )}
        {isError(f) && role === roleSpan && <Level level={4} />}
        {closed && at.errors > 0 && (
          <span class="bd rigid small bold o err" title="errors below">
            {count(at.errors)}
          </span>
        )}
        {closed && hits > 0 && (
          <span class="bd rigid small bold o" title="hits below">
            {many(hits, 'hit')}
          </span>
        )}
        {isOpen(f) && <span class="bd rigid small bold el warn">never ended</span>}
        <span class="at el q">{shown(plain(at.text))}</span>
        {closed && !search.only.value && <span class="bl q rigid">{count(at.below)} below</span>}
      </div>
      <div role="gridcell" class={'du soft' + (took && took >= 1_000_000_000n ? ' s' : '')}>
        {role !== roleSpan ? (
          at.start_unix_nano === null ? (
            ''
          ) : (
            <time>{moment(at.start_unix_nano, phone() ? 0 : 3)}</time>
          )
        ) : took !== null ? (
          (isOpen(f) ? '≥ ' : '') + duration(took)
        ) : (
          ''
        )}
      </div>
      <div role="gridcell" />
    </div>
  )
}
