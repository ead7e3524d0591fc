import type { ComponentProps } from 'preact'

const paths: Record<string, string> = {
  chevron: 'M6 3l5 5-5 5',
  find: 'M11.2 7a4.2 4.2 0 1 1-8.4 0a4.2 4.2 0 0 1 8.4 0M10.2 10.2L14 14',
  close: 'M4 4l8 8M12 4l-8 8',
  up: 'M3.5 10L8 5.5l4.500 4.5',
  down: 'M3.5 6L8 10.5L12.5 6',
  copy: 'M5.5 5.5h8v8h-8zM3 10.500V4q0-1.5 1.500-1.500H10',
  plus: 'M8 3v10M3 8h10',
  minus: 'M3 8h10',
  link: 'M6.500 9.500l3-3M7 4.5l1.500-1.500a3 3 0 0 1 4.500 4.500L11.500 9M9 11.500L7.500 13a3 3 0 0 1-4.500-4.500L4.500 7',
  root: 'M3 3v7h9M9 7l3 3-3 3'
}

export const Icon = ({ name }: { name: string }) => (
  <svg class="ic" viewBox="0 0 16 16" aria-hidden>
    <path d={paths[name]} />
  </svg>
)

// IconButton is a button with a sign instead of a text.
export const IconButton = ({ icon, label, ...rest }: { icon: string; label: string } & ComponentProps<'button'>) => (
  <button class="ib" title={label} aria-label={label} {...rest}>
    <Icon name={icon} />
  </button>
)

// Level is the sign of a level. The levels differ in shape, not only in color.
export function Level({ level, event }: { level: number; event?: boolean }) {
  const name = event ? 'event' : (['trace', 'debug', 'info', 'warn', 'error'][level] ?? 'info')
  const shape = event
    ? 'M8 3l5 5-5 5-5-5z'
    : level >= 4
      ? 'M5.200 2h5.600L14 5.200v5.600L10.800 14H5.200L2 10.800V5.200z'
      : level === 3
        ? 'M8 2.500l6 11H2z'
        : 'M11 8a3 3 0 1 1-6 0a3 3 0 0 1 6 0'
  return (
    <svg class={'lv rigid ' + name} viewBox="0 0 16 16" role="img" aria-label={name}>
      <path d={shape} />
      {level >= 3 && !event && (
        <path class="bang" d={level >= 4 ? 'M8 4.500v4.200M8 11v.1' : 'M8 6.500v3.200M8 11.800v.1'} />
      )}
    </svg>
  )
}
