// The indentation of names, and the rows that stay at the top while the user scrolls.

// indents returns the indentation of names: step pixels for each level below base. If the visible rows are deep
// and all levels do not fit into room, the levels become narrower, and the outermost visible row begins at the
// left.
export function indents(depths: number[], room: number): { base: number; step: number } {
  const widest = 15,
    narrowest = 4
  const deepest = Math.max(0, ...depths)
  if (deepest * narrowest <= room) return { base: 0, step: Math.min(widest, Math.floor(room / Math.max(1, deepest))) }
  const base = Math.min(...depths)
  return { base, step: Math.min(widest, room / Math.max(1, deepest - base)) }
}

// staying returns the rows that stay at the top of the list: the ancestors of the first row below them. If there are
// more than most ancestors, it returns the innermost ancestors. The function above returns the ancestors of the n-th
// visible row, the outermost first.
export function staying<T>(above: (n: number) => T[], most: number): T[] {
  for (let n = 0; ; n++) {
    const all = above(n)
    if (n >= Math.min(most, all.length)) return all.slice(all.length - Math.min(n, all.length))
  }
}

// folded shortens a path of many steps to the first step, the number of hidden steps, and the last few steps.
export function folded<T>(path: T[]): { first: T[]; hidden: number; last: T[] } {
  const ends = 4
  if (path.length <= ends + 1) return { first: path, hidden: 0, last: [] }
  return { first: path.slice(0, 1), hidden: path.length - ends, last: path.slice(1 - ends) }
}
