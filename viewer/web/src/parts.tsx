// What several panels have: sections, stacks, places in code.
import { frames, plain } from './text'
import * as trace from './trace'

export const Section = ({ title, children }: { title: string; children: preact.ComponentChildren }) => (
  <section class="sec">
    <h3>{title}</h3>
    {children}
  </section>
)

// Frames are the lines of a stack; those of Go's runtime say less than the others.
export const Frames = ({ stack, here = '' }: { stack: string; here?: string }) => (
  <pre class="code v">
    {frames(stack.trimEnd()).map(f => (
      <span class={/^(runtime|sync|internal\/\w+)\./.test(f.text) ? 'fr q' : 'fr'}>
        {f.text === here ? <b>{plain(f.text)}</b> : plain(f.text)}
        {f.file && (
          <>
            {' '}
            <Place file={f.file} line={f.line!} short />
          </>
        )}
      </span>
    ))}
  </pre>
)

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
