// Drawing on canvases, in the colors of the theme.
import { plain, short } from './text'

let dark: MediaQueryList | undefined,
  scheme = '',
  colors = new Map<string, string>()

const letter = 6.4 // the width of a letter of a label, in pixels

// A Point is a position on a canvas.
export type Point = [number, number]

// A Pen draws on a canvas. Positions are in CSS pixels.
export class Pen {
  readonly marks: object[] = [] // what was drawn, for tests of the page
  readonly c: CanvasRenderingContext2D
  private used = ''

  // The constructor sets the size of the canvas in CSS pixels, and clears it.
  constructor(
    canvas: HTMLCanvasElement,
    readonly width: number,
    readonly height: number
  ) {
    const ratio = devicePixelRatio || 1
    this.c = canvas.getContext('2d')!
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio)
      canvas.height = Math.round(height * ratio)
      canvas.style.width = width + 'px'
      canvas.style.height = height + 'px'
    }
    this.c.setTransform(ratio, 0, 0, ratio, 0, 0)
    this.c.clearRect(0, 0, width, height)
    dark ??= matchMedia('(prefers-color-scheme: dark)')
    const now = document.documentElement.style.colorScheme + dark.matches
    if (now !== scheme) colors = new Map()
    scheme = now
  }

  // color returns the color of a name for a canvas. Names t0 and so on are the tints of s0 and so on. Each color is
  // computed once per theme, because the computation takes a tenth of a frame.
  color(name: string): string {
    if (name[0] === '#') return name
    let c = colors.get(name)
    if (c === undefined) {
      // canvases accept only computed colors; the palette of forced colors is too small to distinguish shapes
      const root = document.documentElement
      root.style.forcedColorAdjust = 'none'
      root.style.color = /^t\d/.test(name)
        ? `color-mix(in srgb, var(--s${name.slice(1)}) 32%, var(--bg))`
        : `var(--${name})`
      c = getComputedStyle(root).color
      colors.set(name, c)
      root.style.color = root.style.forcedColorAdjust = ''
    }
    return c
  }

  // use sets the color for the next drawing, and returns it. It does not set the same color again, because this would
  // take time.
  use(name: string): string {
    const color = this.color(name)
    if (color !== this.used) {
      this.c.fillStyle = color
      this.c.strokeStyle = color
    }
    this.used = color
    return color
  }

  // within calls draw, and clips its drawing at the border of a rectangle.
  within(x: number, y: number, width: number, height: number, draw: () => void) {
    this.c.save()
    this.c.beginPath()
    this.c.rect(x, y, width, height)
    this.c.clip()
    draw()
    this.c.restore()
    this.used = ''
  }

  // fill draws a rectangle, and returns its color.
  fill(name: string, x: number, y: number, width: number, height: number): string {
    const color = this.use(name)
    this.c.fillRect(x, y, width, height)
    return color
  }

  // put draws a rectangle, and adds a mark for it.
  put(kind: string, name: string, x: number, y: number, width: number, height: number) {
    this.note(kind, x, y, width, height, { color: this.fill(name, x, y, width, height) })
  }

  // note adds a mark to marks.
  note(kind: string, x: number, y: number, width: number, height: number, more = {}) {
    this.marks.push({ ...more, kind, x, y, width, height })
  }

  // outline draws the border of a rectangle, inside the rectangle.
  outline(name: string, x: number, y: number, width: number, height: number, line: number) {
    this.use(name)
    this.c.lineWidth = line
    this.c.strokeRect(x + line / 2, y + line / 2, Math.max(1, width - line), height - line)
  }

  // line draws a line through points.
  line(name: string, points: Point[], width: number) {
    this.use(name)
    this.c.lineWidth = width
    this.path(points)
    this.c.stroke()
  }

  // shape draws the shape with these corners, and returns its color.
  shape(name: string, corners: Point[]): string {
    const color = this.use(name)
    this.path(corners)
    this.c.fill()
    return color
  }

  private path(points: Point[]) {
    this.c.beginPath()
    for (const [x, y] of points) this.c.lineTo(x, y)
  }

  // write writes a text that begins at x and has its middle at y.
  write(name: string, text: string, x: number, y: number) {
    this.c.textBaseline = 'middle'
    this.use(name)
    this.c.fillText(text, x, y)
  }

  // label writes as much of a text as fits. If fewer than three letters fit, it writes nothing.
  label(text: string, x: number, y: number, room: number) {
    const letters = Math.floor(room / letter)
    if (letters > 2) this.write('tx', short(plain(text), letters), x, y)
  }
}
