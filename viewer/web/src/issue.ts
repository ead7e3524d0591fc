// A subtree as Markdown, for an issue.
import { isError, isOpen, noTime, roleOf, roleSpan, Rows } from './source'
import { day, duration, moment, plain } from './text'

export const most = 8000 // bytes

// markdown returns rows as a list in a code block, in at most so many bytes, and says what it leaves out.
// Above are rows above the first one, which it does not have.
export function markdown(title: string, r: Rows, bytes = most): string {
  const size = (s: string) => new TextEncoder().encode(s).length
  const lines: string[] = []
  let left = bytes - 400 - size(title)
  for (let k = r.above; k < r.row.length; k++) {
    const f = r.flags[k]!, span = roleOf(f) === roleSpan, took = r.took[k]!
    const line = '  '.repeat(Math.min(r.depth[k]!, 40)) + plain([isError(f) ? 'ERROR' : '', r.name[k]!.slice(0, 200), span && took >= 0n ? (isOpen(f) ? '≥ ' : '') + duration(took) : '', isOpen(f) ? 'never ended' : '', span ? r.service[k]! : '', r.text[k]!].filter(Boolean).join(' '))
    if ((left -= size(line) + 1) < 0) break
    lines.push(line)
  }
  const fence = '`'.repeat(Math.max(3, ...[...lines.join('\n').matchAll(/`+/g)].map(m => m[0].length + 1)))
  const start = r.start[r.above], rest = r.total - r.first - lines.length
  return `${plain(title).replace(/[\\`*_{}[\]<>#|]/g, '\\$&')}${start === undefined || start === noTime ? '' : `, ${day(start)}, ${moment(start, 3)}`}\n\n${fence}\n${lines.join('\n')}\n${fence}\n${rest > 0 ? `\n${rest.toLocaleString('en-US')} more rows are left out.\n` : ''}`
}
