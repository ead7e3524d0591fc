// A chart of blocks with names. One block is chosen. The chart describes the block below the pointer, or else the
// chosen block.
import { useSignal } from '@preact/signals'
import type { ComponentChildren } from 'preact'
import { Canvas, type Chart, Over, onKeys } from './chart'
import * as page from './page'
import type { Pen } from './pen'

// A Block is a mark of the element i of an answer.
export interface Block {
  i: number
  name: string
  x: number
  y: number
  width: number
}

export function Blocks({
  chart,
  name,
  answer,
  blocks,
  row,
  reach,
  height,
  paint,
  label,
  says,
  info,
  at,
  choose,
  click,
  open,
  keys,
  brush
}: {
  chart: Chart
  name: string
  answer: object | null // another answer has other blocks
  blocks: Block[]
  row: number // the height of a block
  reach: number // pixels beside a block in which the pointer still counts as on the block
  height: number
  paint: (pen: Pen, marked: (i: number) => boolean) => void
  label: string
  says: (i: number) => string
  info: (i: number) => ComponentChildren
  at: number // the chosen element; below 0 if no element is chosen
  choose: (i: number) => void
  click?: (i: number) => void
  open?: (i: number) => void
  keys: (move: (to: number | undefined) => void) => Record<string, (e: KeyboardEvent) => unknown>
  brush?: boolean // whether a drag chooses a part of the time
}) {
  const over = useSignal({ i: -1, answer }), // the element below the pointer
    i = over.value.i >= 0 && over.value.answer === answer ? over.value.i : at
  const hit = (e: MouseEvent) => {
    const { x, y } = chart.spot(e)
    const inside = (b: Block) => x >= b.x - reach && x < b.x + Math.max(2, b.width + reach) && y >= b.y && y < b.y + row
    return blocks.findLast(inside)?.i ?? -1
  }
  const point = (i: number) => {
    if (i !== over.peek().i || answer !== over.peek().answer) over.value = { i, answer }
  }
  const move = (to = -1) => {
    if (to < 0) return
    choose(to)
    point(-1)
    page.spoken.value = says(to)
  }
  const on = (act?: (i: number) => void) => (e: MouseEvent) => {
    const i = hit(e)
    if (i >= 0) act?.(i)
  }
  return (
    <>
      <div
        class="fl grow scroll rel"
        ref={chart.box}
        role="group"
        tabIndex={0}
        aria-label={`${label} ${i < 0 ? '' : says(i)}`}
        onKeyDown={onKeys(keys(move))}
        onPointerDown={e => {
          if (brush && !e.button && e.pointerType === 'mouse') chart.brush(e)
        }}
        onPointerMove={e => {
          if (!chart.brushed.peek()) point(hit(e))
        }}
        onPointerLeave={() => point(-1)}
        onClick={on(i => {
          move(i)
          click?.(i)
        })}
        onDblClick={on(open)}>
        <Canvas
          of={chart}
          name={name}
          width={Math.max(1, chart.size.value.width)}
          height={height}
          paint={pen => {
            pen.marks.push(...blocks)
            paint(pen, n => n === at || n === i)
          }}
        />
        <Over of={chart} axis={chart.axis} left={0} />
      </div>
      {i >= 0 && <div class="fi over">{info(i)}</div>}
    </>
  )
}
