// Elements that several panels use: sections, stacks and places in code.
import type { ComponentChildren, SVGAttributes } from 'preact'
import * as selection from './selection'
import { frames, isLibrary, plain } from './text'
import * as trace from './trace'

// none shows why there is nothing to show. wrong shows an error, or nothing if the text is empty.
export const none = (text: string) => <p class="none">{plain(text)}</p>

export const wrong = (text: string) =>
  text && (
    <p class="none err" role="alert">
      {plain(text)}
    </p>
  )

// Go is a link to a row.
export const Go = ({ row, children }: { row: number; children: ComponentChildren }) => (
  <button class="lk" onClick={() => selection.go(row)}>
    {children}
  </button>
)

// Choose lets the user choose one of several options. Options without a label are omitted.
export const Choose = <T extends string>({
  label,
  now,
  to,
  of
}: {
  label: string
  now: T
  to: (id: T) => void
  of: [T, string | false][]
}) => (
  <div class="seg rim sunk" role="group" aria-label={label}>
    {of.map(
      ([id, text]) =>
        text && (
          <button aria-pressed={now === id} onClick={() => to(id)}>
            {text}
          </button>
        )
    )}
  </div>
)

// Bars draws values over time, one for each column.
export function Bars({ of, ...rest }: { of: number[] } & SVGAttributes<SVGSVGElement>) {
  const most = Math.max(1, ...of),
    bar = (v: number, i: number) => v && `M${i} 14h.8v${(-Math.max(1, (v / most) * 14)).toFixed(1)}h-.8z`
  return (
    <svg viewBox={`0 0 ${of.length} 14`} preserveAspectRatio="none" {...rest}>
      <path d={of.map(bar).filter(Boolean).join('')} />
    </svg>
  )
}

export const Section = ({ title, children }: { title: string; children: ComponentChildren }) => (
  <section class="sec">
    <h3>{title}</h3>
    {children}
  </section>
)

// The meanings of groups of runtime frames, by a function in the group.
const means: [RegExp, string][] = [
  [/^sync\.\(\*(RW)?Mutex\)/, 'waits for a lock'],
  [/^sync\.\(\*WaitGroup\)/, 'waits for other goroutines'],
  [/^runtime\.(chan|selectgo)/, 'waits at a channel'],
  [/^internal\/poll\./, 'waits for the network'],
  [/^time\.Sleep/, 'sleeps']
]

// Frames shows the lines of a stack. Adjacent frames of the libraries of Go and OpenTelemetry are folded into one
// line with their meaning.
export function Frames({ stack, here = '' }: { stack: string; here?: string }) {
  const runs: { lib: boolean; list: ReturnType<typeof frames> }[] = []
  for (const f of frames(stack.trimEnd())) {
    const last = runs.at(-1),
      lib = f.text ? isLibrary(f.text) : !!last?.lib // a place without a function
    if (last && last.lib === lib) last.list.push(f)
    else runs.push({ lib, list: [f] })
  }
  const line = (f: ReturnType<typeof frames>[0]) => (
    <span class="fr">
      {f.text === here ? <b>{plain(f.text)}</b> : plain(f.text)}
      {f.file && (
        <>
          {' '}
          <Place file={f.file} line={f.line!} short />
        </>
      )}
    </span>
  )
  return (
    <pre class="code v">
      {runs.map(({ lib, list }) =>
        lib && list.length > 1 ? (
          <details class="q">
            <summary>
              {means.find(([of]) => list.some(f => of.test(f.text)))?.[1] ?? plain(list[0]!.text)}, {list.length} lines
              of libraries
            </summary>
            {list.map(line)}
          </details>
        ) : (
          list.map(line)
        )
      )}
    </pre>
  )
}

export function Place({ file, line, short = false }: { file: string; line: number; short?: boolean }) {
  const editor = trace.meta.value!.editor
  const whole = plain(file) + (line ? ':' + line : '')
  const label = short ? whole.split('/').slice(-2).join('/') : whole
  if (!editor)
    return (
      <span class="mono q" title={whole}>
        {label}
      </span>
    )
  const path = ('/' + file.replace(/\\/g, '/').replace(/^\/+/, '')).split('/').map(encodeURIComponent).join('/')
  return (
    <a class="lk mono" title={whole} href={editor.replace('{path}', path).replace('{line}', String(line))}>
      {label}
    </a>
  )
}
