// The search of a static page. For the same words, it finds the same rows as query/text.go and query/term.go.

// lower returns a text in lower case, letter by letter as Go does it.
const lower = (s: string) =>
  /[^\0-\x7f]/.test(s)
    ? Array.from(s, c => String.fromCodePoint(c.toLowerCase().codePointAt(0)!)).join('')
    : s.toLowerCase()

const split = (q: string) => q.match(/"[^"]*"?|[^\s"]+/g) ?? []

const textOf = (word: string) => lower(word.replaceAll('"', ''))

// wordsOf returns the words and the quoted phrases of a query, in lower case.
export const wordsOf = (q: string) => split(q).map(textOf).filter(Boolean)

// finder returns a function that reports whether a row has all words of a query in its texts. A word without quotes can
// also be the row's level, status or kind.
export function finder(q: string): (texts: unknown[], is: string[]) => boolean {
  const words = split(q).filter(textOf)
  return (texts, is) => {
    const text = lower(texts.join('\n'))
    return words.every(w => text.includes(textOf(w)) || is.includes(w))
  }
}

// isQuery reports whether a query has more than words and phrases.
export const isQuery = (q: string) =>
  /[{}|()`<>=~]|&&|(^|\s)(!|(and|or|not|in|contains|true|false|nil)(\s|$)|\/([/*]|[^/]*[^\s/]\/(\s|$)))/.test(
    q.replace(/"[^"\\]*"/g, '""')
  ) || /"[^"]*\\/.test(q)
