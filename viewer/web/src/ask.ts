// Hooks for requests of the parts of the page, and helpers for the pointer.
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { byName, theme } from './page'
import * as trace from './trace'

// useAnswer sends a request whenever the key changes. It keeps the last answer until the next one arrives.
export function useAnswer<T>(
  key: string,
  ask: (signal: AbortSignal) => Promise<T>,
  rest = 80 // milliseconds before the request
): { value: T | null; failed: string } {
  const value = useSignal<T | null>(null),
    failed = useSignal('')
  useEffect(() => {
    if (!key) {
      value.value = null
      failed.value = ''
      return
    }
    const stop = new AbortController()
    const wait = setTimeout(
      () =>
        ask(stop.signal).then(
          v => {
            value.value = v
            failed.value = ''
          },
          e => {
            if (!stop.signal.aborted) {
              failed.value = e.message
              value.value = null
            }
          }
        ),
      rest
    )
    return () => {
      clearTimeout(wait)
      stop.abort()
    }
  }, [key])
  return { value: value.value, failed: failed.value }
}

// useLatest sends a request when the key has changed, but only after the answer to the previous request. While the
// trace grows, it also pauses between requests.
export function useLatest<T>(key: string, ask: () => Promise<T>): { value: T | null; failed: string } {
  const value = useSignal<T | null>(null),
    failed = useSignal(''),
    now = useRef({ key, ask, busy: false }).current
  now.key = key
  now.ask = ask
  useEffect(() => {
    const next = async () => {
      if (now.busy || !now.key) return
      now.busy = true
      const of = now.key,
        begun = performance.now()
      try {
        value.value = await now.ask()
        failed.value = ''
      } catch (e) {
        failed.value = (e as Error).message
      }
      await new Promise(r => setTimeout(r, trace.meta.value!.follow ? Math.max(500, performance.now() - begun) : 0))
      now.busy = false
      if (of !== now.key) next()
    }
    next()
  }, [key])
  return { value: value.value, failed: failed.value }
}

// useWidth is the width of an element, in pixels.
export function useWidth(box: { current: HTMLElement | null }): number {
  const width = useSignal(0)
  useEffect(() => {
    const watch = new ResizeObserver(() => {
      if (box.current) width.value = box.current.clientWidth
    })
    watch.observe(box.current!)
    return () => watch.disconnect()
  }, [])
  return width.value
}

// usePaint draws a canvas after each rendering of the component, and when the colors change.
export function usePaint(draw: (canvas: HTMLCanvasElement) => void) {
  const canvas = useRef<HTMLCanvasElement>(null)
  void theme.value
  void byName.value
  useEffect(() => {
    if (canvas.current) draw(canvas.current)
  })
  return canvas
}

// drag follows a pointer that was pressed on an element. It calls moved only after the pointer has moved by four
// pixels. The argument far of done says whether it has. If the drag is canceled, drag calls canceled. The returned
// function cancels the drag.
export function drag(
  e: PointerEvent,
  moved: (e: PointerEvent) => void,
  done: (far: boolean, e: PointerEvent) => void = () => {},
  canceled = () => {}
) {
  const el = e.currentTarget as HTMLElement,
    { clientX, clientY } = e
  let far = false
  el.setPointerCapture(e.pointerId)
  const stop = () => {
    el.onpointermove = el.onpointerup = el.onpointercancel = null
  }
  el.onpointermove = e => {
    far ||= Math.hypot(e.clientX - clientX, e.clientY - clientY) >= 4
    if (far) moved(e)
  }
  el.onpointerup = e => {
    stop()
    done(far, e)
  }
  const cancel = () => {
    stop()
    canceled()
  }
  el.onpointercancel = cancel
  return cancel
}

// pull is a drag that sets a signal while the pointer moves. done gets the last value of the signal, or null if
// the pointer did not move far enough.
export const pull = <T>(
  e: PointerEvent,
  to: { value: T | null },
  next: (e: PointerEvent) => T,
  done: (last: T | null, e: PointerEvent) => void
) =>
  drag(
    e,
    e => {
      to.value = next(e)
    },
    (_, e) => {
      const last = to.value
      to.value = null
      done(last, e)
    },
    set(to, null)
  )

// spot returns the position of a pointer relative to an element, and the width of the element, in pixels.
export function spot(box: { current: HTMLElement | null }, e: MouseEvent) {
  const r = box.current!.getBoundingClientRect()
  return { x: e.clientX - r.left, y: e.clientY - r.top, width: r.width }
}

// set and flip return event handlers: one sets a signal, the other switches it on or off.
export const set =
  <T>(signal: { value: T }, to: T) =>
  () => {
    signal.value = to
  }

export const flip = (on: { value: boolean }) => () => {
  on.value = !on.value
}
