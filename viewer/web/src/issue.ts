// A subtree as Markdown, to paste into an issue.
import { isError, isOpen, type Rows, roleOf, roleSpan } from './source'
import { day, duration, head, moment, plain, zone } from './text'

export const most = 8000 // bytes

// markdown returns rows as a list in a code block with at most the given number of bytes. The text says which rows
// are omitted. r.above has the rows above the first row; these rows are not in the list.
export function markdown(title: string, r: Rows, bytes = most): string {
  const size = (s: string) => new TextEncoder().encode(s).length
  const lines: string[] = []
  let left = bytes - 400 - size(title)
  for (const { flags: f, took_nano: took, depth, name, service, text } of r.rows) {
    const span = roleOf(f) === roleSpan
    const line =
      '  '.repeat(Math.min(depth, 40)) +
      plain(
        [
          isError(f) ? 'ERROR' : '',
          head(name, 200),
          span && took !== null ? (isOpen(f) ? '≥ ' : '') + duration(took) : '',
          isOpen(f) ? 'never ended' : '',
          span ? service : '',
          text
        ]
          .filter(Boolean)
          .join(' ')
      )
    left -= size(line) + 1
    if (left < 0) break
    lines.push(line)
  }
  const fence = '`'.repeat(Math.max(3, ...[...lines.join('\n').matchAll(/`+/g)].map(m => m[0].length + 1)))
  const start = r.rows[0]?.start_unix_nano,
    rest = r.total - r.first - lines.length
  return `${plain(title).replace(/[\\`*_{}[\]<>#|]/g, '\\$&')}${start == null ? '' : `, ${day(start)}, ${moment(start, 3)} ${zone(start)}`}\n\n${fence}\n${lines.join('\n')}\n${fence}\n${rest > 0 ? `\n${rest.toLocaleString('en-US')} more rows are left out.\n` : ''}`
}
