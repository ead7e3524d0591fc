// Runs the tests that are lines of text: testdata/*.txt. testdata/README.md explains the words.
import { execFileSync, spawn } from 'node:child_process'
import { appendFileSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import './files.mjs'
import { at, children, entrace, live, open, serve, shots, traces } from './rig.mjs'

const words = {
  names: '.rows .r .t', selected: '.rows .r[aria-selected=true] .t', row: '.rows .r', rows: '.rows', hits: '.hits', query: '#query',
  details: '.det', facets: '.fac', alert: '[role=alert]', line: '.tbs tbody tr', cell: 'td', column: 'th', toolbar: '.tool', overview: '.topv', value: '.kv',
}
const filtered = new RegExp(`^(${Object.keys(words).join('|')}|.*?(?= with ))(?: with)? (.*)$`) // "row render", ".tl3 with Goroutines"

// pattern returns a regexp for "/a regexp/" and for a whole name in quotes. Playwright finds any other text as a part.
function pattern(text) {
  if (text.startsWith('/')) return new RegExp(...text.slice(1).split(/\/(?=i?$)/))
  return text.startsWith('"') ? new RegExp(`^\\s*${text.slice(1, -1).replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}\\s*$`) : text
}

// plain replaces the narrow blanks that the page writes between a number and its unit.
const plain = text => text.replace(/[^\S\n]/g, ' ')

// find returns what a target names, such as "1st button Close in row render".
function find(scope, target) {
  return target.split(' in ').reduceRight((scope, part) => {
    const [, place, what] = /^(?:(\d+|last)(?:st|nd|rd|th)? )?(.*)$/.exec(part)
    const [, role, name] = /^(button|tab|heading|option|link|dialog|searchbox|img|text|label)(?: (.*))?$/.exec(what) ?? []
    const [, selector, text] = filtered.exec(what) ?? [, what]
    const all = role === 'text' ? scope.getByText(pattern(name))
      : role === 'label' ? scope.getByLabel(pattern(name))
      : role ? scope.getByRole(role, name ? { name: pattern(name) } : {})
      : scope.locator(words[selector] ?? selector, text ? { hasText: pattern(text) } : {})
    return place === 'last' ? all.last() : place ? all.nth(place - 1) : all
  }, scope)
}

// marks returns the marks that a chart has drawn: "drawn tree bar row=2" those of a kind with these fields.
async function marks(page, what) {
  const [, view, kind, fields] = /^drawn (\w+)(?: (\w+)\b(?!=))?(.*)$/.exec(what)
  const want = [...fields.matchAll(/(\w+)=("[^"]*"|\S+)/g)].map(([, key, v]) => [key, v.replaceAll('"', '')])
  const all = await page.evaluate(view => window.__entrace?.[view] ?? [], view)
  return all.map(m => ({ ...m, right: m.x + m.width })).filter(m => (!kind || m.kind === kind) && want.every(([key, v]) => String(m[key]) === v))
}

// measure returns what there is now: a text or a number.
async function measure(page, what) {
  const [, of, property, target] = /^(?:(max|min|sum|spread|distinct) )?(\S+) of (.*)$/.exec(what) ?? []
  if (property) {
    const list = target.startsWith('drawn ') ? (await marks(page, target)).map(m => m[property])
      : await find(page, target).evaluateAll((all, p) => all.filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect()[p] ?? e[p] ?? e.getAttribute(p) ?? getComputedStyle(e).getPropertyValue(p)), property)
    const max = Math.max(...list), min = Math.min(...list)
    return { max, min, sum: list.reduce((a, b) => a + b, 0), spread: list.length ? max - min : NaN, distinct: new Set(list.map(v => v.toFixed?.() ?? v)).size }[of] ?? list[0]
  }
  if (what.startsWith('count ')) return what.startsWith('count drawn ') ? (await marks(page, what.slice(6))).length : find(page, what.slice(6)).count()
  if (what.startsWith('drawn ')) return (await marks(page, what)).map(m => m.name).join(' | ')
  if (/^\d+ [-+*/]/.test(what)) return number(what)
  if (what === 'address') return page.url()
  if (what === 'clipboard') return page.evaluate(() => navigator.clipboard.readText())
  if (what.startsWith('script ')) return page.evaluate(what.slice(7))
  if (what === 'focus') return page.evaluate(() => document.activeElement.id)
  return (await find(page, what).evaluateAll(list => list.map(e => e.matches('input, select') ? e.value : e.textContent))).join(' | ')
}

// amount returns the number in a text such as "all 1,202 values", and number computes what stands behind a comparison.
const amount = text => parseFloat(text.replaceAll(',', '').replace(/^[a-z ]+/, ''))
const number = text => /[a-z]/.test(text) ? amount(text) : Function(`return ${text}`)()

const comparisons = {
  ':': (got, want) => new RegExp(want, 's').test(got), lacks: (got, want) => got && !new RegExp(want, 's').test(got),
  '=': (got, want) => got === want.replaceAll('\\n', '\n'), '!=': (got, want) => got && got !== want,
  '<': (got, want) => got < number(want), '>': (got, want) => got > number(want), '>=': (got, want) => got >= number(want), '<=': (got, want) => got <= number(want),
  '~': (got, want, [near, by = '1'] = want.split(' by ')) => Math.abs(got - number(near)) < number(by),
}

// see waits until a comparison is true, and returns what there is then. A text that is not there lacks nothing, so that the step waits for it.
async function see(run, rest) {
  const [, what, sign, want] = /^((?:[^/]|\/(?:\\.|[^/\\])*\/)*?)(:(?= |$)| (?:!?=|[<>]=?|~|lacks)(?= |$)) ?(.*)$/.exec(rest) ?? []
  if (!sign) return find(run.page, rest).first().waitFor()
  let got
  for (const end = Date.now() + 60_000; ;) {
    got = await measure(run.page, what).catch(e => e) // while a page loads, it cannot be asked
    const text = plain(String(got ?? ''))
    if (!(got instanceof Error) && comparisons[sign.trim()](/[<>~]/.test(sign) ? amount(text) : text, want)) return text
    if (Date.now() > end) throw new Error('there is ' + (got instanceof Error ? got.message : JSON.stringify(got)))
    await new Promise(r => setTimeout(r, 20))
  }
}

// place returns the position of "x,y" or "x%,y%" within a target, or within the window.
async function place(page, target, text) {
  const box = target ? await find(page, target).boundingBox() : { x: 0, y: 0, width: 1, height: 1 }
  const [x, y] = text.split(',')
  return [[x, box.x, box.width], [y, box.y, box.height]].map(([v, from, size]) => from + number(v.replace(/(.*)%/, `$1/100*${size}`)))
}

// hold presses the button of the mouse at one place of a target and moves to another.
async function hold(run, rest) {
  const [, target, from, to] = /^(.*) (\S+,\S+) to (\S+,\S+)$/.exec(rest)
  const places = [await place(run.page, target, from), await place(run.page, target, to)]
  await run.page.mouse.move(...places[0])
  await run.page.mouse.down()
  await run.page.mouse.move(...places[1], { steps: 5 })
}

// options returns the options of the browser, the state, and the arguments of the command.
function options(rest) {
  const o = { args: [], state: '' }
  for (const word of rest.split(' ')) {
    const [, key, value] = /^(tab|zone|size)=(.*)$/.exec(word) ?? []
    if (key === 'tab') o.tab = value
    else if (key === 'zone') o.timezoneId = value
    else if (key === 'size') o.viewport = { width: Number(value.split('x')[0]), height: Number(value.split('x')[1]) }
    else if (word === 'touch') Object.assign(o, { hasTouch: true, isMobile: true })
    else if (word.startsWith('?')) o.state = word
    else o.args.push(word)
  }
  return o
}

// act does something with a target and the text behind a colon.
async function act(run, rest, what) {
  const [, target, value] = /^(.*?)(?:: (.*)|:)?$/.exec(rest)
  return what(find(run.page, target), value ?? '')
}

const verbs = {
  open: async (run, rest) => {
    const { args, state, ...o } = options(rest)
    run.url = (await serve(...args)).url
    run.pages.push(run.page = await open(state ? at(run.url, state) : run.url, o))
  },
  again: async run => { run.pages.push(run.page = await open(at(run.url, new URL(run.page.url()).search))) },
  export: async (run, rest) => {
    const { args: [file], state, ...o } = options(rest)
    execFileSync(entrace, ['export', '--force', file, '-o', join(traces, file + '.html')], { cwd: traces })
    run.pages.push(run.page = await open(`file://${join(traces, file)}.html#${state.slice(1)}`, { offline: true, ...o }))
  },
  page: (run, rest) => { run.page = run.pages[rest - 1] },
  reload: run => run.page.reload(),
  back: run => run.page.goBack(),
  forward: run => run.page.goForward(),
  resize: (run, rest) => run.page.setViewportSize({ width: Number(rest.split('x')[0]), height: Number(rest.split('x')[1]) }),
  click: (run, rest) => {
    const [, modifier, target, x, y] = /^(?:(Alt|Shift|Control)\+)?(.*?)(?: at (\S+),(\S+))?$/.exec(rest)
    return find(run.page, target).click({ modifiers: modifier ? [modifier] : [], position: x ? { x: number(x), y: number(y) } : undefined })
  },
  doubleclick: (run, rest) => find(run.page, rest).dblclick(),
  tap: (run, rest) => find(run.page, rest).tap(),
  hover: (run, rest) => find(run.page, rest).hover(),
  focus: (run, rest) => find(run.page, rest).focus(),
  press: async (run, rest) => {
    const [, keys, target] = /^(.*?)(?: in (.*))?$/.exec(rest)
    for (const key of keys.split(' ')) await (target ? find(run.page, target).press(key) : run.page.keyboard.press(key))
  },
  type: (run, rest) => run.page.keyboard.type(rest),
  fill: (run, rest) => act(run, rest, (target, value) => target.fill(value)),
  choose: (run, rest) => act(run, rest, (target, value) => target.selectOption(value)),
  move: async (run, rest) => {
    const [, target, to] = /^(?:(.*) )?(\S+,\S+)$/.exec(rest)
    await run.page.mouse.move(...await place(run.page, target, to))
  },
  wheel: async (run, rest) => {
    const [, by, modifier] = /^(\S+)(?: with (\w+))?$/.exec(rest)
    if (modifier) await run.page.keyboard.down(modifier)
    await run.page.mouse.wheel(0, Number(by))
    if (modifier) await run.page.keyboard.up(modifier)
  },
  hold,
  drag: async (run, rest) => { await hold(run, rest); await run.page.mouse.up() },
  release: run => run.page.mouse.up(),
  see,
  gone: (run, rest) => see(run, `count ${rest} = 0`),
  keep: async (run, rest) => {
    const [, name, what] = /^(\w+) = (.*)$/.exec(rest)
    run.kept[name] = await see(run, `${what}: .`)
  },
  download: (run, rest) => act(run, rest, async (target, value) => {
    const [download] = await Promise.all([run.page.waitForEvent('download'), target.click()])
    const got = readFileSync(await download.path(), 'utf8')
    if (!new RegExp(value).test(got)) throw new Error('there is ' + JSON.stringify(got.slice(0, 1000)))
  }),
  shot: (run, rest) => shots && run.page.screenshot({ path: join(shots, rest) }),
  record: (run, rest) => {
    const [name, folder = ''] = rest.split(' ').reverse()
    run.recorder = spawn(live, [join(traces, folder), name], { stdio: ['pipe', 'pipe', 'inherit'] })
    children.push(run.recorder)
  },
  log: async (run, rest) => {
    const [, text, from = 0, to = 0] = /^(.*?)(?: (\d+) to (\d+))?$/.exec(rest)
    for (let i = Number(from); i <= to; i++) await new Promise(r => { run.recorder.stdout.once('data', r); run.recorder.stdin.write(text + (to ? ` ${i}` : '') + '\n') })
  },
  append: (run, rest) => {
    const [, file, line] = /^(\S+): (.*)$/.exec(rest)
    appendFileSync(join(traces, file), line + '\n')
  },
  folder: (run, rest) => mkdirSync(join(traces, rest)),
  exit: run => { run.recorder.stdin.end() },
  kill: run => { run.recorder.kill('SIGKILL') },
}

// parse returns the tests of a file: an unindented line is the name of a test, and the indented lines below are its steps.
function parse(text) {
  const tests = []
  text.split('\n').forEach((line, i) => {
    const step = line.replace(/(^|\s+)# .*$/, '').trimEnd()
    if (step && step === step.trimStart()) tests.push({ name: step, steps: [] })
    else if (step) tests.at(-1).steps.push({ line: i + 1, text: step.trim().replaceAll('␣', ' ') })
  })
  return tests
}

const folder = join(import.meta.dirname, 'testdata')
for (const file of readdirSync(folder).filter(f => f.endsWith('.txt')).sort()) {
  for (const { name, steps } of parse(readFileSync(join(folder, file), 'utf8'))) {
    test(name, async () => {
      const run = { pages: [], kept: {} }
      for (const { line, text } of steps) {
        const [, verb, rest] = /^(\S+) ?(.*)$/s.exec(text.replace(/\$(\w+)/g, (whole, name) => run.kept[name] ?? whole))
        try {
          if (!verbs[verb]) throw new Error('there is no such verb')
          await verbs[verb](run, rest)
        } catch (e) {
          throw new Error(`testdata/${file}:${line}: ${text}\n${e.message}`)
        }
      }
    })
  }
}
