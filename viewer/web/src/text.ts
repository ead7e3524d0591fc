// Functions that write numbers, times and texts of a trace.

const thin = '\u202f'

// duration writes nanoseconds with three digits.
export function duration(n: bigint): string {
  if (n < 0n) return '-' + duration(-n)
  if (n < 1000n) return n + thin + 'ns'
  if (n >= 60_000_000_000n) {
    const s = n / 1_000_000_000n
    const h = s / 3600n,
      m = (s / 60n) % 60n
    return h ? `${h}${thin}h ${m}${thin}min` : `${m}${thin}min ${s % 60n}${thin}s`
  }
  // 999.6 rounds to 1000 with three digits, which needs the next unit.
  const [unit, name] = n < 999_500n ? [1_000n, 'µs'] : n < 999_500_000n ? [1_000_000n, 'ms'] : [1_000_000_000n, 's']
  const digits = n * 100n >= unit * 9995n ? 0 : n * 1000n >= unit * 9995n ? 1 : 2
  const scale = 10n ** BigInt(digits)
  const text = ((n * scale * 2n + unit) / (unit * 2n)).toString()
  return (digits ? text.slice(0, -digits) + '.' + text.slice(-digits) : text) + thin + name
}

// written says how times are written: in UTC or in the zone of the browser, and with the day if a trace covers
// several days.
export const written = { utc: false, dated: false }

const minutes = (d: Date) => (written.utc ? 0 : -d.getTimezoneOffset())

// moment writes a time since 1970 as a time of day.
export function moment(n: bigint, digits = 6): string {
  const s = n / 1_000_000_000n,
    rest = (n - s * 1_000_000_000n).toString().padStart(9, '0'),
    d = new Date(Number(s) * 1000)
  d.setTime(d.getTime() + minutes(d) * 60_000)
  const time = d
    .toISOString()
    .slice(written.dated ? 5 : 11, 19)
    .replace('T', ' ')
  return digits ? `${time}.${rest.slice(0, digits)}` : time
}

// zone names the zone in which a time is written.
export function zone(n: bigint): string {
  const of = minutes(new Date(Number(n / 1_000_000n))),
    two = (n: number) => String(Math.floor(Math.abs(n))).padStart(2, '0')
  return 'UTC' + (of ? `${of < 0 ? '-' : '+'}${two(of / 60)}:${two(of % 60)}` : '')
}

export const day = (n: bigint) =>
  new Date(Number(n / 1_000_000n)).toLocaleDateString(undefined, {
    dateStyle: 'medium',
    ...(written.utc && { timeZone: 'UTC' })
  })

// count writes a number with separators.
export const count = (n: number) => n.toLocaleString('en-US')

export const many = (n: number, one: string, more = one + 's') => count(n) + ' ' + (n === 1 ? one : more)

// plain replaces characters that would change the display of a text by visible signs: control characters, characters
// that change the direction, and invisible characters. It keeps invisible characters that join letters or turn a
// character into a picture or a flag. It removes terminal colors.
export function plain(s: string): string {
  return (
    s
      // biome-ignore lint/suspicious/noControlCharactersInRegex: with it the colors of a terminal begin
      .replace(/\x1b\[[\d;]*m/g, '')
      .replace(
        /[\p{Cc}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}\u2028\u2029](?<!\u200c|\u200d|\ufe0e|\ufe0f|\u{1f3f4}[\u{e0020}-\u{e007f}]+)/gu,
        c => (c === '\n' ? '⏎' : c === '\t' ? ' ' : `\\u${c.codePointAt(0)!.toString(16).padStart(4, '0')}`)
      )
  )
}

// lines is like plain, but keeps the line breaks.
export const lines = (s: string) => s.split('\n').map(plain).join('\n')

const characters = new Intl.Segmenter()

// head returns the first n units of a text. It does not cut an emoji or a letter with an accent.
export const head = (s: string, n: number) => s.slice(0, s.length > n ? characters.segment(s).containing(n)!.index : n)

// short is like head, but its result ends with … if the text is cut.
export const short = (s: string, n: number) => (s.length > n ? head(s, n - 1) + '…' : s)

// isLong reports whether a text needs its own block. headline returns the line that stands for a long text elsewhere.
export const isLong = (s: string) => s.length > 120 || s.includes('\n')
export const headline = (s: string) => head(s.trim().split('\n', 1)[0]!, 1000)

// pretty returns a JSON text with its parts on separate lines. It returns other texts unchanged.
export function pretty(s: string): string {
  const t = s.trim()
  if (t.length > 100_000 || !/^[[{]/.test(t)) return s
  try {
    JSON.parse(t)
  } catch {
    return s
  }
  return indented(t)
}

// indented puts the parts of a JSON text on separate lines. Names, numbers and texts stay unchanged.
export function indented(json: string): string {
  let depth = 0
  const line = () => '\n' + '  '.repeat(depth)
  return json.replace(/"(?:\\.|[^"\\])*"|[[{]\s*[\]}]|\s+|[[\]{},:]/g, x => {
    switch (x[0]) {
      case '"':
        return x
      case '[':
      case '{':
        if (x.length > 1) return x[0]! + x.at(-1)!
        depth++
        return x + line()
      case ']':
      case '}':
        depth--
        return line() + x
      case ',':
        return x + line()
      case ':':
        return ': '
    }
    return ''
  })
}

// sql puts the parts of a statement on separate lines.
export function sql(s: string): string {
  if (s.includes('\n') || s.length > 100_000) return s
  return s.replace(
    /(?<!\s)\s+(FROM|WHERE|(?:LEFT |RIGHT |INNER |OUTER |CROSS ){0,2}JOIN|GROUP BY|ORDER BY|HAVING|LIMIT|VALUES|SET|UNION|RETURNING|FOR UPDATE)\b/gi,
    '\n$1'
  )
}

// frames splits a stack into lines. If a line contains a position in a source file, alone or after a function, the
// result has the position as file and line. All lines after the first maxFrames become one line.
export function frames(stack: string): { text: string; file?: string; line?: number }[] {
  const lines = stack.split('\n')
  const first = lines.length > maxFrames ? [...lines.slice(0, maxFrames), lines.slice(maxFrames).join('\n')] : lines
  return first.map(text => {
    const m = text.length < 2000 ? /:(\d{1,7})( \+0x\w{1,16})?$/.exec(text) : null
    const head = text.slice(0, m?.index)
    const begins = /^\s/.test(head) ? head.search(/\S/) : head.indexOf(' ') + 1
    const file = head.slice(begins)
    return m && begins > 0 && isSource(file)
      ? { text: head.slice(0, begins).trim(), file, line: Number(m[1]) }
      : { text }
  })
}

const maxFrames = 300

// isSource reports whether a text is the path of a source file: an absolute path, or a path with folders and
// without blanks.
const isSource = (file: string) =>
  /\.[A-Za-z]\w{0,7}$/.test(file) &&
  !/[":]/.test(file.slice(2)) &&
  (/^(\/|[A-Za-z]:[\\/])/.test(file) || /^[^\s:()]+[\\/][^\s:()]+$/.test(file))

const domains: [string, RegExp][] = [
  ['HTTP', /^(http|url|client|server|network|user_agent)\./],
  ['Database', /^db\./],
  ['Messages', /^messaging\./],
  ['RPC', /^rpc\./],
  ['Exception', /^exception\./]
]

// groups returns attributes in groups, each sorted by name. The groups of OpenTelemetry conventions come first,
// then a group of all other attributes.
export function groups<T extends { name: string }>(list: T[]): [string, T[]][] {
  const of = (a: T) => domains.find(([, names]) => names.test(a.name))?.[0] ?? 'Attributes'
  const sorted = [...list].sort((a, b) => (a.name < b.name ? -1 : 1))
  return [...domains.map(d => d[0]), 'Attributes']
    .map((title): [string, T[]] => [title, sorted.filter(a => of(a) === title)])
    .filter(g => g[1].length)
}

// marked splits a text into parts. Every second part is one of the words, which are in lower case. The case of
// letters does not matter.
export function marked(text: string, words: string[]): string[] {
  const low = text.toLowerCase()
  if (!words.length || low.length !== text.length) return [text]
  const parts: string[] = []
  let from = 0
  for (;;) {
    let at = -1,
      size = 0
    for (const w of words) {
      const i = low.indexOf(w, from)
      if (w && i >= 0 && (at < 0 || i < at || (i === at && w.length > size))) {
        at = i
        size = w.length
      }
    }
    if (at < 0) return [...parts, text.slice(from)]
    parts.push(text.slice(from, at), text.slice(at, at + size))
    from = at + size
  }
}

// painted splits a query into operators, values (texts, numbers and words after an operator) and other parts. It
// marks the part at the position wrong. The position counts from 1, without the blanks before the query.
export function painted(query: string, wrong = 0): { text: string; kind: '' | 's' | 'n' | 'o'; wrong?: boolean }[] {
  let behind = false,
    at = query.trimStart().length - query.length
  const place = (text: string) => {
    const from = at
    at += text.length
    return text.trim() && wrong > 0 && wrong - 1 >= from && wrong - 1 < at ? { wrong: true } : {}
  }
  return (query.match(/"(?:\\.|[^"\\])*"?|`[^`]*`?|\s+|[{}()|&!=<>~+\-*/%^,]+|[^\s"`{}()|&!=<>~+*/%^,]+/g) ?? []).map(
    text => {
      const c = text[0]!
      const kind =
        c === '"' || c === '`'
          ? 's'
          : /[{}()|&!=<>~+\-*/%^,]/.test(c) && !/\w/.test(text)
            ? 'o'
            : /^-?\d/.test(text) || (behind && /^[a-z]+$/.test(text))
              ? 'n'
              : ''
      if (kind === 'o') behind = /[=<>~]$/.test(text)
      else if (text.trim()) behind = false
      return { text, kind, ...place(text) }
    }
  )
}

// quoted returns a text in the syntax of queries.
export const quoted = (text: string) => `"${text.replace(/[\\"\n\t\r]/g, c => JSON.stringify(c).slice(1, -1))}"`

// fieldName returns the name of an attribute in the syntax of queries. It quotes the name, unless the name surely
// needs no quotes.
export const fieldName = (name: string) => '.' + (/^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/.test(name) ? name : quoted(name))

export const isLibrary = (frame: string) => /^(?!main\.)[\w-]+(\/|\.(?![\w.-]*\/))|^go\.opentelemetry\.io\//.test(frame)

// percent returns a share in percent, with the percent sign or another given end.
export function percent(n: number, of: number, end = '\u202f%') {
  const share = n / of
  return (
    (!of || !n
      ? '0'
      : n === of
        ? '100'
        : share < 0.001
          ? '<0.1'
          : share > 0.999
            ? '>99.9'
            : (share * 100).toFixed(share < 0.1 || share >= 0.995 ? 1 : 0)) + end
  )
}
