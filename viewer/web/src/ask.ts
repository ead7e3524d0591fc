// Hooks for requests of the parts of the page, and helpers for the pointer.
import { useSignal } from '@preact/signals'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import type { Answer, Name, Question } from './source'
import * as trace from './trace'

// A Reply is the last answer to a question, the question to which it belongs, and the error of a later question.
interface Reply<K extends Name> {
  value: Answer<K> | null
  asked: Question<K> | null
  failed: string
}
const none = { value: null, asked: null, failed: '' }

// A Maybe is a question, or nothing to ask.
type Maybe<K extends Name> = Question<K> | false | '' | null

// keyOf returns a text that changes with a question and with the state of the trace that its answer describes.
const keyOf = <K extends Name>(q: Maybe<K>, state: string) => q && [...Object.values(q), state].join('\n')

// useAnswer asks a question whenever the question or the state of the trace changes. It keeps the last answer until
// the next answer arrives.
export function useAnswer<K extends Name>(
  name: K,
  q: Maybe<K>,
  state = trace.pace(),
  rest = 80 // milliseconds before the request
): Reply<K> {
  const reply = useSignal<Reply<K>>(none),
    key = keyOf(q, state)
  useEffect(() => {
    if (!q) {
      reply.value = none
      return
    }
    const stop = new AbortController()
    const wait = setTimeout(
      () =>
        trace.source.ask(name, q, stop.signal).then(
          value => {
            reply.value = { value, asked: q, failed: '' }
          },
          e => {
            if (!stop.signal.aborted) reply.value = { ...none, failed: e.message }
          }
        ),
      rest
    )
    return () => {
      clearTimeout(wait)
      stop.abort()
    }
  }, [key])
  return reply.value
}

// useLatest is like useAnswer, but asks only after the answer to the previous question. While the trace grows, it also
// pauses between questions.
export function useLatest<K extends Name>(name: K, q: Maybe<K>, state = trace.version()): Reply<K> {
  const reply = useSignal<Reply<K>>(none),
    key = keyOf(q, state),
    now = useRef(q)
  now.current = q
  const next = useMemo(
    () =>
      paced(
        () => (trace.meta.value!.follow ? 500 : 0),
        async () => {
          const asked = now.current
          if (!asked) return
          try {
            reply.value = { value: await trace.source.ask(name, asked), asked, failed: '' }
          } catch (e) {
            reply.value = { ...reply.value, failed: (e as Error).message }
          }
        }
      ),
    []
  )
  useEffect(() => {
    next()
  }, [key])
  return reply.value
}

// paced returns a function that calls run, but not while an earlier call runs, nor in a pause after it, which is as
// long as the call was. If the least pause is 0, there is no pause. One later call replaces all calls in the meantime.
export function paced(least: () => number, run: () => Promise<void>) {
  let busy = false,
    again = false
  return async function call() {
    again = busy
    if (busy) return
    busy = true
    const begun = performance.now()
    await run()
    if (least()) await new Promise(r => setTimeout(r, Math.max(least(), performance.now() - begun)))
    busy = false
    if (again) call()
  }
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

// pull is a drag that sets a signal while the pointer moves. The function done gets the last value of the signal, or
// null if the pointer did not move far enough.
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
