// Hooks for requests of the parts of the page, and helpers for the pointer.
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import * as trace from './trace'

// useAnswer sends a request whenever the key changes. It keeps the last answer until the next answer arrives.
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

// drag follows a pointer that was pressed on an element. It calls moved only after the pointer has moved by four
// pixels, or with across, by four pixels to a side. The argument far of done says whether the pointer has moved this
// far. Escape cancels the drag and calls canceled. The returned function also cancels the drag.
export function drag(
  e: PointerEvent,
  moved: (e: PointerEvent) => void,
  done: (far: boolean, e: PointerEvent) => void = () => {},
  canceled = () => {},
  across = false
) {
  const el = e.currentTarget as HTMLElement,
    { clientX, clientY } = e,
    listen = new AbortController(),
    options = { signal: listen.signal, capture: true }
  let far = false
  const cancel = () => {
    if (listen.signal.aborted) return
    listen.abort()
    canceled()
  }
  const on = (e: PointerEvent) => {
    if (!e.buttons) return cancel() // the button was released outside of the window
    if (!far && Math.hypot(e.clientX - clientX, across ? 0 : e.clientY - clientY) >= 4) {
      far = true
      el.setPointerCapture(e.pointerId) // not earlier, because the click of a captured pointer would be a click on el
    }
    if (far) moved(e)
  }
  const up = (e: PointerEvent) => {
    listen.abort()
    done(far, e)
    if (!far) return
    const click = (e: Event) => e.stopPropagation() // the end of a drag is not a click
    addEventListener('click', click, true)
    setTimeout(() => removeEventListener('click', click, true))
  }
  const key = (e: KeyboardEvent) => {
    if (e.key !== 'Escape') return
    e.stopPropagation()
    cancel()
  }
  addEventListener('pointermove', on, options)
  addEventListener('pointerup', up, options)
  addEventListener('pointercancel', cancel, options)
  addEventListener('keydown', key, options)
  return cancel
}

// pull is a drag that sets a signal while the pointer moves. done gets the last value of the signal, or null if
// the pointer did not move far enough.
export const pull = <T>(
  e: PointerEvent,
  to: { value: T | null },
  next: (e: PointerEvent) => T,
  done: (last: T | null) => void,
  across = false
) =>
  drag(
    e,
    e => {
      to.value = next(e)
    },
    () => {
      const last = to.value
      to.value = null
      done(last)
    },
    set(to, null),
    across
  )

// spot returns the position of a pointer relative to an element, and the width of the element, in pixels.
export function spot(box: { current: HTMLElement | null }, e: MouseEvent) {
  const r = box.current!.getBoundingClientRect()
  return { x: e.clientX - r.left, y: e.clientY - r.top, width: r.width }
}

// set and flip return event handlers. The handler of set sets a signal, the handler of flip switches a signal on or
// off.
export const set =
  <T>(signal: { value: T }, to: T) =>
  () => {
    signal.value = to
  }

export const flip = (on: { value: boolean }) => () => {
  on.value = !on.value
}
