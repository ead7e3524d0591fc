// Tests of the page in a browser: each does what people do, with keys and a pointer, and reads what
// they see.
import chromium from '@sparticuz/chromium'
import { spawn } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { after, afterEach, before, test } from 'node:test'
import assert from 'node:assert/strict'
import { chromium as playwright } from 'playwright-core'

const { ENTRACE: entrace, TRACES: traces, LIVE: live, SHOTS: shots } = process.env
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

let browser
const children = []
before(async () => {
  browser = await playwright.launch({ executablePath: await chromium.executablePath(), args: chromium.args.filter(a => !/single-process|no-zygote/.test(a)), headless: true })
})
after(async () => { await browser?.close(); for (const c of children) c.kill('SIGKILL') })

// serve starts the viewer and returns its address.
function serve(...args) {
  const child = spawn(entrace, ['view', '--no-open', ...args], { stdio: ['ignore', 'pipe', 'pipe'], cwd: traces })
  children.push(child)
  return new Promise((resolve, reject) => {
    let out = ''
    child.stdout.on('data', d => {
      out += d
      const m = /^entrace: viewer at (http:\/\/127\.0\.0\.1:\d+\/\S*#token=\w+)\n/.exec(out)
      if (m) resolve({ url: m[1], child })
    })
    child.on('exit', code => reject(new Error(`the viewer has ended with ${code}: ${out}`)))
  })
}

const pages = []
afterEach(async () => { for (const p of pages.splice(0)) { if (!p.deserted) assert.deepEqual(p.problems, []); await p.page.context().close() } })

async function open(url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, permissions: ['clipboard-read', 'clipboard-write'], timezoneId: 'UTC', ...options })
  const page = await context.newPage()
  const problems = []
  page.on('pageerror', e => problems.push(e.message))
  page.on('console', m => { if (m.type() === 'error' && !/401|422/.test(m.text())) problems.push(m.text()) })
  pages.push({ page, problems })
  const requests = []
  page.on('request', r => requests.push(r.url()))
  page.requests = requests
  await page.goto(url)
  return page
}

const at = (url, state) => url.replace(/\/[^/#]*#/, '/' + state + '#')
const names = page => page.$$eval('.rows .r .t', list => list.map(e => e.textContent))
const selected = async page => (await page.locator('.rows .r[aria-selected=true] .t').allTextContents())[0]
const until = async (what, is, ms = 20_000) => {
  for (const end = Date.now() + ms; ;) {
    const got = await what()
    if (is(got)) return got
    if (Date.now() > end) assert.fail('it stays ' + JSON.stringify(got))
    await new Promise(r => setTimeout(r, 20))
  }
}
const rowsAre = (page, want) => until(() => names(page), got => JSON.stringify(got) === JSON.stringify(want))

test('first look: the summary leads into the tree', async () => {
  const { url } = await serve('shop.et')
  const page = await open(url)
  await page.getByRole('heading', { name: 'Slowest spans' }).waitFor()
  assert.match(await page.textContent('.topv'), /3 errors/)
  assert.match(await page.textContent('.topv'), /1 span never ended/)
  if (shots) await page.screenshot({ path: shots + '/viewer-top.png' })
  await page.getByRole('button', { name: /^payment failed/ }).click()
  await until(() => selected(page), t => t === 'payment failed')
  assert.equal(await page.locator('.tabs [aria-selected=true]').textContent(), 'Tree')
})

test('tree: a trace opens until the screen is full; keys and the pointer open and close', async () => {
  const { url } = await serve('shop.et')
  const page = await open(at(url, '?v=tree'))
  await rowsAre(page, ['GET /cart', 'authorize', 'SELECT price', 'payment failed', 'exception', 'GET /cart', 'SELECT price', 'retry 7', 'render', 'SELECT price', 'hang', 'waiting', 'starting up'])
  await page.keyboard.press('j')
  await until(() => selected(page), t => t === 'GET /cart')
  await page.keyboard.press('h')
  await until(async () => (await names(page)).length, n => n === 9)
  assert.equal(await page.locator('.rows .r').first().locator('.bd.o').textContent(), '2', 'errors bubble up')
  assert.match(await page.locator('.rows .r').first().textContent(), /4 below/)
  await page.keyboard.press('ArrowRight')
  await until(async () => (await names(page)).length, n => n === 13)
  await page.locator('.rows .r', { hasText: 'render' }).getByRole('button', { name: 'Close' }).click()
  await until(async () => (await names(page)).length, n => n === 12)
  await page.keyboard.press('G')
  await until(() => selected(page), t => t === 'starting up')
  await page.getByLabel('What is open').selectOption('1')
  await until(async () => (await names(page)).length, n => n === 11)
  await page.locator('.rows .r', { hasText: 'SELECT price' }).first().dblclick()
  await rowsAre(page, ['SELECT price', 'payment failed', 'exception'])
  await page.keyboard.press('Escape')
  await until(async () => (await names(page)).length, n => n === 11)
  await page.locator('.rows .r', { hasText: 'SELECT price' }).first().dblclick()
  await rowsAre(page, ['SELECT price', 'payment failed', 'exception'])
  await page.keyboard.press('e')
  await until(() => selected(page), t => t === 'payment failed')
  await page.keyboard.press('e') // which is not below that row: everything is as it was
  await until(() => selected(page), t => t === 'SELECT price')
  assert.equal((await names(page)).length, 11)
})

test('bars: on one axis, ghosts for what never ended, ticks, red ends', async () => {
  const { url } = await serve('shop.et')
  const page = await open(at(url, '?v=tree'))
  await until(async () => (await names(page)).length, n => n === 13)
  const frame = () => page.evaluate(() => window.__entrace.frame().drawn)
  const drawn = await until(frame, d => d.length > 10)
  const of = (kind, row) => drawn.filter(d => d.kind === kind && (!row || d.row === row))
  assert.equal(of('ghost').length, 1)
  assert.equal(of('ghost')[0].row, 12)
  assert.equal(of('end').length, 2)
  const [a, b] = [of('bar', 2)[0], of('bar', 7)[0]]
  assert.ok(Math.abs(a.width / b.width - 5) < .1, 'a span that takes five times as long is five times as long')
  assert.ok(b.x > a.x + a.width)
  assert.ok(of('tick', 4).length === 2 && of('mark', 5).length === 1)
  await page.locator('.rows .r').nth(5).click()
  await page.keyboard.press('f')
  await until(async () => (await frame()).find(d => d.kind === 'bar' && d.row === 7).width, w => w > 300)
  await page.keyboard.press('0')
  await until(async () => (await frame()).find(d => d.kind === 'bar' && d.row === 7).width, w => w < 60)
  await page.mouse.move(800, 300)
  await page.keyboard.down('Control')
  await page.mouse.wheel(0, -100)
  await page.keyboard.up('Control')
  await until(async () => (await frame()).find(d => d.kind === 'bar' && d.row === 7).width, w => w > b.width * 1.2)
})

test('search: as you type, marked or alone, next and previous, wrong queries', async () => {
  const { url } = await serve('shop.et')
  const page = await open(at(url, '?v=tree'))
  await until(async () => (await names(page)).length, n => n === 13)
  await page.keyboard.press('/')
  await page.keyboard.type('level >= error')
  await until(() => page.textContent('.hits'), t => /3 hits/.test(t))
  await page.keyboard.press('Enter')
  await until(() => page.textContent('.hits'), t => /1 of 3/.test(t))
  await until(() => page.locator('.r.hit').count(), n => n === 3)
  await page.keyboard.press('Escape')
  await page.keyboard.press('n')
  await until(() => page.textContent('.hits'), t => /2 of 3/.test(t))
  await until(() => selected(page), t => t === 'payment failed')
  await page.keyboard.press('N')
  await until(() => page.textContent('.hits'), t => /1 of 3/.test(t))
  await page.getByRole('button', { name: 'Only hits' }).click()
  await rowsAre(page, ['GET /cart', 'SELECT price', 'payment failed', 'render', 'SELECT price'])
  assert.equal(await page.locator('.r.dim').count(), 2)
  if (shots) await page.screenshot({ path: shots + '/viewer-tree.png' })
  await page.locator('.rows .r', { hasText: 'payment failed' }).click()
  await page.getByRole('button', { name: 'Mark' }).click()
  await until(async () => (await names(page)).length, n => n === 13)
  await until(() => selected(page), t => t === 'payment failed')
  await until(() => page.textContent('.hits'), t => /2 of 3/.test(t))
  await page.fill('#query', '{ name = ')
  await until(() => page.locator('[role=alert]').textContent().catch(() => ''), t => /at \d+/.test(t))
  assert.equal(await page.locator('.r.hit').count(), 3, 'the last good result stays')
  await page.fill('#query', 'payment')
  await until(() => page.locator('.r.hit mark').allTextContents(), t => t.join() === 'payment')
  await page.fill('#query', 'nothing at all')
  await until(() => page.textContent('.hits'), t => /0 hits/.test(t))
  await page.getByRole('button', { name: 'Only hits' }).click()
  await page.getByRole('heading', { name: 'Nothing matches' }).waitFor()
})

test('completion: names, keys and values of the file', async () => {
  const { url } = await serve('shop.et')
  const page = await open(at(url, '?v=tree'))
  await until(async () => (await names(page)).length, n => n === 13)
  await page.keyboard.press('/')
  await page.keyboard.type('.us')
  await page.getByRole('option', { name: /\.user/ }).waitFor()
  await page.keyboard.press('Tab')
  await page.keyboard.type(' = "E')
  await page.getByRole('option', { name: '"Eve"' }).waitFor()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  assert.equal((await page.inputValue('#query')).trim(), '.user = "Eve"')
  await until(() => page.textContent('.hits'), t => /1 hit/.test(t))
})

test('completion: values behind an operator and a blank', async () => {
  const { url } = await serve('shop.et')
  const page = await open(at(url, '?v=tree'))
  await page.locator('.rows .r').first().waitFor()
  for (const [text, value] of [['level = ', 'error'], ['.user = ', '"ada"']]) {
    await page.fill('#query', text)
    await page.getByRole('option', { name: value }).waitFor()
  }
})

test('errors and what never ended have keys', async () => {
  const { url } = await serve('shop.et')
  const page = await open(at(url, '?v=tree&d=0&x=0'))
  await page.locator('.rows .r').first().waitFor()
  const seen = []
  const row = () => page.locator('.rows .r[aria-selected=true]').evaluateAll(list => list.map(e => e.dataset.row).join())
  for (let i = 0, last = ''; i < 3; i++) {
    await page.keyboard.press('e')
    last = await until(row, r => r && r !== last)
    seen.push(await selected(page))
  }
  assert.deepEqual(seen, ['SELECT price', 'payment failed', 'SELECT price'])
  await page.keyboard.press('u')
  await until(() => selected(page), t => t === 'hang')
})

test('never ended: the stack of the goroutine that worked for it', async () => {
  const { url } = await serve('hang.et', '--editor', 'vscode://file{path}:{line}')
  const page = await open(url)
  await page.locator('.topv', { hasText: 'in main.waitForLock' }).waitFor()
  await page.getByRole('button', { name: /^mutex ≥ 20\d/ }).click()
  await until(() => selected(page), t => t === 'mutex')
  const det = page.locator('.det')
  await det.getByRole('heading', { name: /^In main.waitForLock at / }).first().waitFor()
  const line = det.locator('.fr', { hasText: 'main.waitForLock' })
  assert.match(await line.getByRole('link').getAttribute('href'), /^vscode:\/\/file\/.*\/main\.go:\d+$/)
  await page.keyboard.press('k')
  await page.keyboard.press('k')
  await until(() => selected(page), t => t === 'POST /checkout')
  await det.getByRole('heading', { name: /^In main.hang at / }).first().waitFor()
})

test('back: to the view, the row and the time before', async () => {
  const { url } = await serve('shop.et')
  const page = await open(url)
  await page.getByRole('button', { name: /^payment failed/ }).click()
  await until(() => selected(page), t => t === 'payment failed')
  await page.locator('.det').getByRole('button', { name: 'GET /cart' }).click()
  await until(() => selected(page), t => t === 'GET /cart')
  await page.keyboard.press('r')
  await page.getByRole('button', { name: 'Whole file' }).waitFor()
  await page.goBack()
  await until(async () => [await selected(page), await page.getByRole('button', { name: 'Whole file' }).count()].join(), t => t === 'GET /cart,0')
  await page.goBack()
  await until(() => selected(page), t => t === 'payment failed')
  await page.goBack()
  await page.getByRole('heading', { name: 'Slowest spans' }).waitFor()
  await page.goForward()
  await until(() => selected(page), t => t === 'payment failed')
})

test('hits: the tree opens as far as to them', async () => {
  const { url } = await serve('shop.et')
  const page = await open(at(url, '?v=tree&x='))
  await until(async () => (await names(page)).length, n => n === 5)
  await page.fill('#query', 'payment')
  await until(() => page.textContent('.hits'), t => /1 hit/.test(t))
  await page.getByLabel('What is open').selectOption('hits')
  await rowsAre(page, ['GET /cart', 'authorize', 'SELECT price', 'payment failed', 'exception', 'GET /cart', 'render', 'hang', 'starting up'])
  await page.fill('#query', 'retry')
  await until(() => page.url(), u => /q=retry/.test(u))
  assert.equal((await names(page)).length, 9, 'what is open stays as it is')
  await page.locator('.rows').focus()
  await page.keyboard.press('x')
  await rowsAre(page, ['GET /cart', 'GET /cart', 'SELECT price', 'retry 7', 'render', 'hang', 'starting up'])
  await page.keyboard.press('n')
  await until(() => selected(page), t => t === 'retry 7')
  await page.locator('.rows .r', { hasText: 'retry 7' }).click()
  await page.keyboard.press('e') // an error elsewhere
  await until(() => selected(page), t => t === 'SELECT price')
  await rowsAre(page, ['GET /cart', 'GET /cart', 'SELECT price', 'retry 7', 'render', 'SELECT price', 'hang', 'starting up'])
  const state = new URL(page.url()).search
  const again = await open(at(url, state))
  await rowsAre(again, ['GET /cart', 'GET /cart', 'SELECT price', 'retry 7', 'render', 'SELECT price', 'hang', 'starting up'])
})

test('axis: the pointer draws the part that is shown', async () => {
  const { url } = await serve('shop.et')
  const page = await open(at(url, '?v=tree'))
  await until(async () => (await names(page)).length, n => n === 13)
  const bar = row => page.evaluate(row => window.__entrace.frame().drawn.find(d => d.kind === 'bar' && d.row === row), row)
  const whole = await until(() => bar(2), b => b)
  const ruler = await page.locator('.ruler').boundingBox()
  await page.mouse.move(ruler.x + 1, ruler.y + 10)
  await page.mouse.down()
  await page.mouse.move(ruler.x + whole.width / 2, ruler.y + 10, { steps: 5 })
  await page.locator('.brush').waitFor()
  await page.mouse.up()
  await until(() => bar(2), b => b && b.width > 3 * whole.width)
  await page.mouse.move(ruler.x + 100, ruler.y + 60)
  assert.match(await page.locator('.cross').textContent(), /^\+[\d.]+\s?ms$/)
  await page.goBack()
  await until(() => bar(2), b => b && Math.abs(b.width - whole.width) < 1)
  await page.mouse.move(ruler.x + 2, ruler.y + 200) // over the bars, too
  await page.mouse.down()
  await page.mouse.move(ruler.x + whole.width / 2, ruler.y + 260, { steps: 5 })
  await page.mouse.up()
  await until(() => bar(2), b => b && b.width > 3 * whole.width)
  assert.equal(await selected(page), undefined, 'to draw is not to select')
  assert.ok((await page.evaluate(() => window.__entrace.frame().drawn)).some(d => d.kind === 'out' && d.row === 12), 'an arrow for what is later')
  await page.keyboard.press('u') // which is later: that time is shown then
  await until(() => page.evaluate(() => window.__entrace.frame().drawn), d => d.some(d => d.kind === 'ghost' && d.row === 12))
  await page.keyboard.press('0')
  await until(() => bar(2), b => b && Math.abs(b.width - whole.width) < 1)
  await page.mouse.move(ruler.x + 1, ruler.y + 20)
  await page.mouse.down()
  await page.mouse.move(ruler.x + 60, ruler.y + 100) // it may leave the ruler
  await page.locator('.brush').waitFor()
  await page.keyboard.press('Escape')
  await until(() => page.locator('.brush').count(), n => n === 0)
  await page.mouse.up()
  assert.ok(Math.abs((await bar(2)).width - whole.width) < 1)
  await page.mouse.move(ruler.x + 1, ruler.y + 10)
  await page.mouse.down()
  await page.mouse.move(ruler.x + 60, ruler.y + 10)
  await page.locator('.brush').waitFor()
  await page.keyboard.press('1')
  await page.locator('.topv h1').waitFor()
  await page.mouse.up()
  await page.keyboard.press('2')
  await until(() => bar(2), b => b && Math.abs(b.width - whole.width) < 1)
  assert.equal(await page.locator('.brush').count(), 0)
})

test('details: attributes, statements, JSON, links, logs below, source files, and conditions by a click', async () => {
  const { url } = await serve('shop.et', '--editor', 'vscode://file{path}:{line}')
  const page = await open(at(url, '?v=tree'))
  await until(async () => (await names(page)).length, n => n === 13)
  await page.locator('.rows .r').nth(2).click()
  const det = page.locator('.det')
  await det.getByText('timeout').waitFor()
  assert.match(await det.textContent(), /SELECT sku, price\nFROM prices\nWHERE sku = \$1\nORDER BY price/)
  assert.equal(await det.getByRole('link').getAttribute('href'), 'vscode://file/src/shop/price.go:42')
  await det.getByRole('button', { name: /Show all 50,0\d\d bytes/ }).click()
  await until(() => det.textContent(), t => /long long long " *\n?\}/.test(t))
  await det.getByRole('searchbox').fill('db.system')
  await until(() => det.locator('.kv').allTextContents(), list => list.some(t => /postgres/.test(t)) && !list.some(t => /^body/.test(t)))
  await det.locator('.kv', { hasText: 'db.system' }).hover()
  await det.getByRole('button', { name: 'Only .db.system = "postgres"' }).click()
  await until(() => page.inputValue('#query'), q => q === '.db.system = "postgres"')
  await until(() => page.textContent('.hits'), t => /2 hits/.test(t))
  await det.getByRole('searchbox').fill('')
  await det.locator('.kv', { hasText: 'db.system' }).getByRole('button', { name: 'Copy the value' }).click()
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'postgres')
  await det.getByRole('tab', { name: 'Logs and events 2' }).click()
  await det.getByRole('button', { name: /payment failed/ }).click()
  await until(() => selected(page), t => t === 'payment failed')
  await page.locator('.rows .r').nth(6).click()
  await det.getByRole('tab', { name: 'Attributes' }).click()
  await det.getByRole('button', { name: 'authorize', exact: true }).click()
  await until(() => selected(page), t => t === 'authorize')
  await det.getByRole('tab', { name: 'JSON' }).click()
  await until(() => det.textContent(), t => /"name": "authorize"/.test(t))
})

test('top: names have their services, a click zooms to the request, and clocks that differ are said', async () => {
  const { url } = await serve('two')
  const page = await open(url)
  const own = page.locator('section', { hasText: 'Most time of their own' })
  await own.getByText('render').first().waitFor()
  assert.deepEqual((await own.locator('li .el', { hasText: 'render' }).allTextContents()).sort(), ['render back', 'render front'])
  assert.match(await page.locator('.clocks').textContent(), /^The clock of back\.et seems 120ms late\. entrace view --clock back\.et=\+120ms two/)
  await own.getByRole('button', { name: /^render front/ }).click()
  await until(() => page.textContent('.hits'), t => /1 of 40 hits/.test(t))
  await page.keyboard.press('1')
  await page.getByRole('button', { name: /^GET \// }).nth(3).click()
  await until(() => selected(page), t => t === 'GET /')
  const row = Number(await page.locator('.rows .r[aria-selected=true]').getAttribute('data-row'))
  await until(() => page.evaluate(row => window.__entrace.frame().drawn.find(d => d.row === row && d.kind === 'bar')?.width ?? 0, row), w => w > 300)
  assert.match(await page.locator('.stat').textContent(), /double click this request alone/)
  const wrong = await serve('--clock', 'back.et=120ms', 'two')
  const right = await open(wrong.url)
  await right.locator('.topv h1').waitFor()
  assert.equal(await right.locator('.clocks').count(), 0)
})

test('panic: a span with an exception and no status is an error, and says why', async () => {
  const { url } = await serve('long.et')
  const page = await open(url)
  await page.getByRole('heading', { name: '1 error' }).waitFor()
  await page.getByRole('button', { name: 'Find all of them' }).click()
  await until(() => page.textContent('.hits'), t => /1 of 1 hit/.test(t))
  await page.keyboard.press('Escape')
  await page.locator('.rows').focus()
  await page.keyboard.press('e')
  await until(() => selected(page), t => t === 'GET /panic')
  assert.equal(await page.locator('.rows .r.bad .t').allTextContents().then(t => t.join()), 'GET /panic')
  assert.ok((await page.evaluate(() => window.__entrace.frame().drawn)).some(d => d.kind === 'end' && d.row === 1))
  const why = page.locator('.det section', { hasText: 'Why it failed' })
  await until(() => why.textContent(), t => /runtime\.plainError: assignment to entry in nil map/.test(t) && /main\.handler/.test(t))
})

test('offers: a query that may be meant is a button, and the wrong word is marked', async () => {
  const { url } = await serve('shop.et')
  const page = await open(at(url, '?v=tree'))
  await page.locator('.rows .r').first().waitFor()
  await page.fill('#query', 'user = "eve" &&')
  await page.locator('[role=alert]').waitFor()
  await page.fill('#query', 'level == error')
  await page.locator('[role=alert]').getByRole('button', { name: /^Find level = error/ }).waitFor()
  assert.deepEqual(await page.locator('.qt .bad').allTextContents(), ['=='])
  await page.locator('[role=alert]').getByRole('button', { name: /^Find/ }).click()
  await until(() => page.inputValue('#query'), q => q === 'level = error')
  await until(() => page.textContent('.hits'), t => /3 hits/.test(t))
  await page.fill('#query', '.usr = "ada"')
  await page.locator('.hint').getByRole('button', { name: /^Find \.user = "ada"/ }).click()
  await until(() => page.textContent('.hits'), t => /1 hit/.test(t))
})

test('rows: what tells siblings apart, times of log records, bars of the rows at the top, and a ruler', async () => {
  const { url } = await serve('shop.et')
  const page = await open(at(url, '?v=tree&x='))
  await rowsAre(page, ['GET /cart', 'GET /cart', 'render', 'hang', 'starting up'])
  assert.deepEqual(await page.locator('.rows .r .nm').evaluateAll(list => list.slice(0, 2).map(e => [e.querySelector('.at').textContent, e.querySelector('.bl').textContent])), [
    ['http.response.status_code=200 user=ada', '4 below'], ['http.response.status_code=500 user=bob', '2 below']])
  assert.equal(await page.locator('.rows .r').nth(4).locator('.du time').textContent(), '00:00:00.500')
  const labels = await page.locator('.ruler span').evaluateAll(list => list.map(e => e.getBoundingClientRect()).map(r => [r.left, r.right]))
  assert.ok(labels.length >= 4 && labels.every(([left], i) => !i || left >= labels[i - 1][1]), JSON.stringify(labels))
  const many = await open(at((await serve('million.et')).url, '?v=tree'))
  await many.locator('.rows .r').first().waitFor()
  await many.keyboard.press('G')
  await until(() => selected(many), t => t === 'nightly batch')
  const batch = Number(await many.locator('.rows .r[aria-selected=true]').getAttribute('data-row'))
  await many.locator('.det summary').waitFor()
  assert.equal(await many.locator('.det summary').textContent(), 'Resource, 1 attribute')
  await many.keyboard.press('ArrowRight')
  await until(() => many.locator('.rows').getAttribute('aria-rowcount'), n => Number(n) > 500_000)
  await many.keyboard.press('G')
  await until(() => many.locator('.sticky .t').allTextContents(), t => t.join() === 'nightly batch')
  const bar = await until(() => many.evaluate(row => window.__entrace.frame().drawn.find(d => d.row === row && d.kind === 'bar'), batch), b => b)
  assert.ok(bar.y < 22)
})

test('axis: a part that is drawn brings its rows into sight', async () => {
  const { url } = await serve('two')
  const page = await open(at(url, '?v=tree&d=9'), { viewport: { width: 1280, height: 400 } })
  await page.locator('.rows .r').first().waitFor()
  const ruler = await page.locator('.ruler').boundingBox()
  await page.mouse.move(ruler.x + ruler.width * .6, ruler.y + 10)
  await page.mouse.down()
  await page.mouse.move(ruler.x + ruler.width * .7, ruler.y + 10, { steps: 5 })
  await page.mouse.up()
  const drawn = await until(() => page.evaluate(() => window.__entrace.frame().drawn.filter(d => d.kind !== 'line')), d => d.filter(d => d.kind === 'bar').length > 4)
  assert.ok(drawn.filter(d => d.kind === 'out').length <= 7, 'few rows are outside')
})

test('choices: the theme and the width of the names stay over a reload; grid lines are pale', async () => {
  const { url } = await serve('shop.et')
  const page = await open(at(url, '?v=tree'))
  await until(async () => (await names(page)).length, n => n === 13)
  const line = () => page.evaluate(() => window.__entrace.frame().drawn.find(d => d.kind === 'line')?.color)
  const light = await line()
  const theme = page.getByRole('button', { name: /^Theme/ })
  await theme.click()
  await theme.click()
  await until(line, c => c !== light)
  assert.deepEqual(await page.evaluate(() => [getComputedStyle(document.body).backgroundColor, window.__entrace.frame().drawn.find(d => d.kind === 'line').color]), ['rgb(16, 19, 24)', 'rgb(35, 41, 50)'])
  const edge = await page.locator('.rsz').boundingBox()
  await page.mouse.move(edge.x + 3, edge.y + 5)
  await page.mouse.down()
  await page.mouse.move(edge.x + 103, edge.y + 5)
  await page.mouse.up()
  await page.reload()
  await until(async () => (await names(page)).length, n => n === 13)
  assert.ok(Math.abs((await page.locator('.rsz').boundingBox()).x - edge.x - 100) < 12)
  assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(16, 19, 24)')
  assert.equal(await page.locator('.bang').first().evaluate(e => getComputedStyle(e).strokeLinecap), 'round')
})

test('files: what cannot be read any more and what a folder has beside its traces is said', async () => {
  const folder = join(traces, 'odd')
  mkdirSync(folder)
  copyFileSync(join(traces, 'deep.et'), join(folder, 'a.et'))
  symlinkSync('gone.et', join(folder, 'dangling.et'))
  writeFileSync(join(folder, 'empty.et'), '')
  const page = await open(at((await serve('odd')).url, '?v=tree&d=3000'))
  await until(async () => (await names(page)).length, n => n > 20)
  assert.match(await page.locator('section[aria-label=Notices]').textContent(), /dangling\.et is left out: it is no regular file.*empty\.et is left out: it is empty/)
  writeFileSync(join(folder, 'a.et'), 'junk'.repeat(20_000))
  await page.mouse.move(300, 400)
  await page.mouse.wheel(0, 22 * 1000)
  await page.locator('.rows .r', { hasText: 'this row cannot be read' }).first().waitFor()
  pages.at(-1).deserted = true // the failed answer is in the console
})

test('long texts: a heading of two lines, the whole text in a block, and the attributes in reach', async () => {
  const { url } = await serve('long.et')
  for (const width of [1280, 390]) {
    const page = await open(at(url, '?v=tree'), width < 720 ? { viewport: { width, height: 800 }, hasTouch: true, isMobile: true } : {})
    for (const [row, heading, first, user] of [[1, /^http: panic serving 127.0.0.1:58192: assignment to entry in nil map$/, /nil map\nmain.handler/, 'mallory'], [3, /^a long name/, /^(a long name ){800}/, 'eve']]) {
      await page.locator('.rows .r').nth(row).click()
      const det = page.locator('.det')
      await until(() => det.locator('h2 .ttl').textContent(), t => heading.test(t))
      assert.ok((await det.locator('h2 .ttl').boundingBox()).height <= 40)
      assert.match(await det.locator('.code').first().textContent(), first)
      await det.locator('.kv', { hasText: user }).scrollIntoViewIfNeeded()
      const [value, pane] = [await det.locator('.kv', { hasText: user }).boundingBox(), await det.boundingBox()]
      assert.ok(value.y >= pane.y && value.y + value.height <= pane.y + pane.height && value.y < 800, 'the attribute is in sight')
      await det.evaluate(e => e.scrollTo(0, 0))
      const inner = await det.evaluate(e => [...e.querySelectorAll('*')].filter(x => x.scrollHeight > x.clientHeight + 1 && /auto|scroll/.test(getComputedStyle(x).overflowY)).length)
      assert.equal(inner, 0, 'the pane scrolls, and nothing in it')
      if (width < 720) await page.locator('.scrim').click({ position: { x: 5, y: 5 } })
    }
    if (width < 720) {
      const text = page.locator('.rows .r').nth(1)
      const [name, more, all] = await Promise.all([text.locator('.t').boundingBox(), text.locator('.at').boundingBox(), text.boundingBox()])
      assert.ok(name.y < more.y && more.y + 14 <= all.y + all.height && more.width > 200, 'attributes are below the message, within the row')
      assert.match(await text.locator('.at').textContent(), /mallory/)
    }
  }
})

test('deep traces: names have room, the innermost rows stay at the top, and details can be reached', async () => {
  const { url } = await serve('deep.et')
  const page = await open(at(url, '?v=tree&d=1000000000'))
  await until(() => page.locator('.rows').getAttribute('aria-rowcount'), n => n === '2000')
  await page.locator('.rows .r').first().click()
  const readable = async () => {
    const cut = await page.locator('.rows .r .t, .sticky .t').evaluateAll(list => list.filter(e => e.clientWidth < Math.min(50, e.scrollWidth)).map(e => e.textContent))
    assert.deepEqual(cut, [], 'names without room')
  }
  await readable()
  await page.mouse.move(300, 400)
  await page.mouse.wheel(0, 22 * 900)
  await until(() => names(page), n => n.includes('level 907'))
  await readable()
  const sticky = await page.locator('.sticky .t').allTextContents()
  assert.deepEqual(sticky.map(t => Number(t.slice(6)) - Number(sticky[0].slice(6))), [0, 1, 2, 3, 4, 5])
  assert.ok(Number(sticky[0].slice(6)) > 890, 'the rows at the top are near: ' + sticky)
  await page.fill('#query', 'bottom')
  await until(() => page.textContent('.hits'), t => /1 hit/.test(t))
  await page.getByRole('button', { name: 'Only hits' }).click()
  await page.keyboard.press('Escape')
  await page.locator('#query').press('Enter')
  await until(() => selected(page), t => t === 'bottom')
  const det = page.locator('.det')
  await det.getByText('at last').waitFor()
  assert.deepEqual(await det.locator('.p button').allTextContents(), ['level 1', '1,995 levels more', 'level 1997', 'level 1998', 'level 1999'])
  assert.ok((await det.locator('.dh').boundingBox()).height < 200)
  await det.getByRole('button', { name: '1,995 levels more' }).click()
  await until(() => det.locator('.p button').count(), n => n === 1999)
  await det.getByText('at last').scrollIntoViewIfNeeded()
})

test('zoom: a narrow window of a mouse has the controls of a mouse', async () => {
  const { url } = await serve('shop.et')
  const page = await open(at(url, '?v=tree'), { viewport: { width: 640, height: 400 } })
  await page.locator('.rows .r').first().waitFor()
  assert.ok(await page.locator('.rows .r').count() >= 6)
  for (const control of await page.locator('.tool .btn, .qbar .ib, .seg button').all()) if (await control.isVisible()) assert.ok((await control.boundingBox()).height < 30)
})

test('touch: on a wide page the values keep their room, and a tap shows what can be done with one', async () => {
  const { url } = await serve('shop.et')
  const page = await open(at(url, '?v=tree&s=2'), { viewport: { width: 1024, height: 800 }, hasTouch: true, isMobile: true })
  const value = page.locator('.det .kv', { hasText: 'user' }).first()
  await value.waitFor()
  assert.ok((await value.locator('.v').boundingBox()).width > 120)
  const height = (await value.boundingBox()).height
  await value.tap()
  await until(async () => (await value.getByRole('button', { name: 'Copy the value' }).boundingBox())?.height ?? 0, h => h >= 36)
  assert.ok((await value.boundingBox()).height > height)
})

test('tables: a query that makes one is refused with the command that prints it', async () => {
  const { url } = await serve('shop.et', '--clock', 'shop.et=+1ms')
  const page = await open(at(url, '?v=tree'))
  await until(async () => (await names(page)).length, n => n === 13)
  await page.fill('#query', `{ name != "it's" } | count() by(name)`)
  await page.locator('[role=alert]').getByRole('button', { name: 'Copy the command' }).click()
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), `entrace stats -q '{ name != "it'\\''s" } | count() by(name)' shop.et --clock shop.et=+1ms`)
})

test('link: the address has the state, and a link to another file says so', async () => {
  const { url } = await serve('shop.et')
  const page = await open(at(url, '?v=tree'))
  await until(async () => (await names(page)).length, n => n === 13)
  assert.ok(!page.url().includes('token'), 'the token is not in the address')
  await page.fill('#query', 'payment')
  await page.locator('.rows .r').first().click()
  await page.keyboard.press('h')
  await until(async () => (await names(page)).length, n => n === 9)
  await page.keyboard.press('w')
  await until(() => page.url(), u => /[?&]w=/.test(u) && /q=payment/.test(u) && /s=2/.test(u))
  await page.getByRole('button', { name: 'Copy link' }).click()
  const copied = (await page.evaluate(() => navigator.clipboard.readText())).split('\n')
  assert.equal(copied[1], page.url())
  const state = /^entrace view shop\.et --state '(\?[^']+)'$/.exec(copied[0])[1]
  const again = await serve('shop.et', '--state', state)
  const other = await open(again.url)
  await until(async () => (await names(other)).length, n => n === 9)
  assert.equal(await other.inputValue('#query'), 'payment')
  assert.equal(await selected(other), 'GET /cart')
  await page.reload()
  await until(async () => (await names(page)).length, n => n === 9)
  const wrong = await open(at(url, '?f=000000&v=tree&q=payment&s=4'))
  await wrong.getByText('The link is to another file').waitFor()
  assert.equal(await wrong.inputValue('#query'), 'payment')
})

test('live: new rows come, it stays where it is unless the end is in sight, and pauses', async () => {
  const recorder = spawn(live, [traces, 'live'], { stdio: ['pipe', 'pipe', 'inherit'] })
  children.push(recorder)
  const say = text => new Promise(r => { recorder.stdout.once('data', r); recorder.stdin.write(text + '\n') })
  await say('first')
  const { url } = await serve('live.et', '--follow')
  const page = await open(at(url, '?v=tree'))
  await rowsAre(page, ['first'])
  await say('second')
  await rowsAre(page, ['first', 'second'])
  await page.getByRole('button', { name: 'Live' }).click()
  await say('third')
  await page.getByRole('button', { name: /Paused, 1 new/ }).waitFor()
  assert.deepEqual(await names(page), ['first', 'second'])
  await page.getByLabel('What is open').selectOption('1') // asks for rows again
  await page.fill('#query', 'third')
  await until(() => page.textContent('.hits'), t => /0 hits/.test(t))
  await page.fill('#query', '')
  assert.deepEqual(await names(page), ['first', 'second'], 'it is as it was when the pause began')
  await page.getByRole('button', { name: /Paused/ }).click()
  await rowsAre(page, ['first', 'second', 'third'])
  await page.keyboard.press('1')
  await page.locator('.topv h1').waitFor()
  await page.keyboard.press('2')
  await rowsAre(page, ['first', 'second', 'third'])
  await say('fourth') // the address that Back finds is of a shorter file
  await rowsAre(page, ['first', 'second', 'third', 'fourth'])
  await page.goBack()
  await page.locator('.topv h1').waitFor()
  await page.goForward()
  await rowsAre(page, ['first', 'second', 'third', 'fourth'])
  for (let i = 0; i < 60; i++) await say('line ' + i)
  await until(async () => (await names(page)).at(-1), t => t === 'line 59')
  await page.mouse.move(300, 400)
  await page.mouse.wheel(0, -2000)
  await until(async () => (await names(page))[0], t => t === 'first')
  for (let i = 60; i < 70; i++) await say('line ' + i)
  await page.getByRole('button', { name: '10 new' }).waitFor()
  assert.equal((await names(page))[0], 'first', 'it stays where it is')
  await page.getByRole('button', { name: '10 new' }).click()
  await until(async () => (await names(page)).at(-1), t => t === 'line 69')
  recorder.stdin.end()
})

test('live, fast: rows stay until newer ones are there, the end is followed, and the hits are counted without a break', async () => {
  const recorder = spawn(live, [traces, 'fast'], { stdio: ['pipe', 'pipe', 'inherit'] })
  children.push(recorder)
  let answers = 0
  recorder.stdout.on('data', d => { answers += d.toString().split('\n').length - 1 })
  let lines = 0
  const burst = async n => {
    for (let i = 0; i < n; i++) recorder.stdin.write(`line ${++lines}\n`)
    await until(() => answers, got => got === lines)
  }
  await burst(300)
  const { url } = await serve('fast.et', '--follow')
  const page = await open(at(url, '?v=tree&q=line'))
  await until(() => page.textContent('.hits'), t => /300 hits/.test(t))
  await page.evaluate(() => {
    window.seen = { waiting: 0, blinks: [], frames: 0 }
    const look = () => {
      window.seen.frames++
      if (document.querySelector('.rows .r.wait')) window.seen.waiting++
      const hits = document.querySelector('.hits').textContent
      if (!/^(1 of |[\d,]+ of )?[\d,]+ hits$/.test(hits)) window.seen.blinks.push(hits)
      requestAnimationFrame(look)
    }
    look()
  })
  await page.locator('.rows').focus()
  await page.keyboard.press('G')
  await until(() => selected(page), t => t === 'line 300')
  for (let i = 0; i < 40; i++) await burst(25)
  await until(async () => (await names(page)).at(-1), t => t === 'line 1300')
  await page.mouse.move(300, 400)
  await page.mouse.wheel(0, -3000)
  await until(async () => (await names(page)).at(-1), t => t !== 'line 1300')
  await until(() => page.locator('.rows .r.wait').count(), n => n === 0)
  await page.evaluate(() => { window.seen.waiting = 0 })
  await burst(200)
  await page.locator('.pill').click()
  await until(async () => (await names(page)).at(-1), t => t === 'line 1500')
  for (let i = 0; i < 8; i++) await burst(25)
  await until(async () => (await names(page)).at(-1), t => t === 'line 1700')
  await until(() => page.textContent('.hits'), t => /1,700 hits/.test(t))
  const seen = await page.evaluate(() => window.seen)
  assert.equal(seen.waiting, 0, `of ${seen.frames} frames so many had rows without a text`)
  assert.deepEqual(seen.blinks, [])
  recorder.stdin.end()
})

test('live, restarts: the page waits for the first file, and goes on with the next program', async () => {
  const folder = join(traces, 'restarts')
  mkdirSync(folder)
  const { url } = await serve('--follow', 'restarts')
  const record = (name, text) => new Promise(r => {
    const recorder = spawn(live, [folder, name], { stdio: ['pipe', 'pipe', 'inherit'] })
    children.push(recorder)
    recorder.stdout.once('data', () => r(recorder))
    recorder.stdin.write(text + '\n')
  })
  const first = await record('app-1', 'one')
  const page = await open(at(url, '?v=tree'))
  await rowsAre(page, ['one'])
  await page.locator('.rows .r').click()
  first.kill('SIGKILL')
  const second = await record('app-2', 'two')
  await rowsAre(page, ['one', 'two'])
  await page.getByText('The page goes on with').waitFor()
  assert.equal(await selected(page), 'one', 'what is selected stays')
  second.stdin.end()
  const third = await record('app-0', 'three') // its file comes before the others
  await rowsAre(page, ['three', 'one', 'two'])
  third.stdin.end()
})

test('a million entries: few rows in the page, few requests a step, one trace of half a million spans', async () => {
  const { url } = await serve('million.et')
  const page = await open(at(url, '?v=tree'))
  await page.locator('.rows .r .t').first().waitFor()
  await page.mouse.move(300, 400)
  for (let i = 0; i < 20; i++) {
    const before = page.requests.length
    await page.mouse.wheel(0, 600)
    await page.waitForTimeout(60)
    assert.ok(page.requests.length - before <= 2, 'at most two requests a step')
    assert.ok(await page.locator('.r').count() <= 100, 'at most a hundred rows')
  }
  await page.keyboard.press('G')
  await until(() => selected(page), t => t === 'nightly batch')
  await page.keyboard.press('ArrowRight')
  await until(() => page.locator('.rows').getAttribute('aria-rowcount'), n => Number(n) > 500_000)
  await page.keyboard.press('G')
  await until(() => selected(page), t => t === 'item 99')
  await until(() => page.locator('.sticky .t').allTextContents(), t => t.length === 1 && t[0] === 'nightly batch')
  await page.fill('#query', '.n = 700000')
  await until(() => page.textContent('.hits'), t => /1 hit/.test(t))
  await page.keyboard.press('Enter')
  await until(() => page.locator('.det').textContent(), t => /700000/.test(t))
  await until(() => selected(page), t => /^item \d+$/.test(t), 5000) // it is in sight
  assert.ok(await page.locator('.r').count() <= 100)
})

test('hostile: markup and what acts on text is shown as text', async () => {
  const { url } = await serve('hostile.et')
  const page = await open(at(url, '?v=tree'))
  await page.locator('.rows .r').first().click()
  await until(() => page.locator('.det').textContent(), t => t.includes('<img src=x onerror') && t.includes('\\u202e') && t.includes('\\u0007'))
  await page.getByRole('button', { name: /Show all 1,04\d,\d+ bytes/ }).click()
  await page.getByRole('tab', { name: 'JSON' }).click()
  await page.keyboard.press('1')
  await page.getByRole('heading', { name: 'Services' }).waitFor()
  assert.equal(await page.evaluate(() => window.broken), undefined)
  assert.equal(await page.locator('img').count(), 0)
})

test('failures: a link with what cannot be asks a few times, and not for ever', async () => {
  const { url, child } = await serve('shop.et')
  for (const state of ['?v=tree&q=level+%3E%3E%3E', '?v=tree&d=1000', '?v=tree&x=5.-3', '?v=tree&root=99&s=99&w=5-1', '?v=tree&m=only&q=%7B']) {
    const page = await open(at(url, state))
    await page.locator('.rows .r').first().waitFor()
    await page.waitForTimeout(300)
    assert.ok(page.requests.length < 25, `${state}: ${page.requests.length} requests`)
  }
  const page = await open(at(url, '?v=tree'))
  await until(async () => (await names(page)).length, n => n === 13)
  child.kill('SIGKILL')
  const before = page.requests.length
  await page.getByLabel('What is open').selectOption('1')
  await page.getByText('does not answer').waitFor()
  await page.waitForTimeout(1000)
  assert.ok(page.requests.length - before < 6)
  for (const p of pages) p.deserted = true // that nobody answers is no problem of theirs
})

test('door: without the token the page says what to do, and has nothing', async () => {
  const { url } = await serve('shop.et')
  const page = await open(url.replace(/#.*/, ''))
  await page.getByText('This page may not see the trace').waitFor()
  assert.ok(!(await page.content()).includes('GET /cart'))
  const first = await open(url)
  await first.locator('.topv h1').waitFor()
  const second = await first.context().newPage() // another tab of the same browser
  await second.goto(url.replace(/#.*/, ''))
  await second.locator('.topv h1').waitFor()
  await page.goto(url) // in the same tab
  await page.locator('.topv h1').waitFor()
  assert.ok(!page.url().includes('token'))
})

test('once: it ends after the last page, and a reload is no end', async () => {
  const { url, child } = await serve('shop.et', '--once')
  const ended = new Promise(r => child.once('exit', r))
  const page = await open(url)
  await page.locator('.topv h1').waitFor()
  await page.reload()
  await page.locator('.topv h1').waitFor()
  const first = await Promise.race([ended, new Promise(r => setTimeout(r, 6500, 'runs'))])
  assert.equal(first, 'runs')
  await page.close()
  assert.equal(await ended, 0)
})

test('accessible: axe finds nothing, in light and dark, at every width', async () => {
  const { url } = await serve('shop.et')
  for (const [colorScheme, width] of [['light', 1280], ['dark', 1280], ['light', 640], ['dark', 390]]) {
    const page = await open(at(url, '?v=tree'), { colorScheme, viewport: { width, height: 800 } })
    await until(async () => (await names(page)).length, n => n >= 10)
    await page.locator('.rows .r').nth(2).click()
    await page.locator('.det').getByText('timeout').waitFor()
    if (shots && width === 1280 && colorScheme === 'dark') await page.screenshot({ path: shots + '/viewer-dark.png' })
    for (const view of ['tree', 'top']) {
      if (view === 'top') { if (width > 720) await page.keyboard.press('1'); else { await page.locator('.scrim').click({ position: { x: 5, y: 5 } }); await page.getByRole('tab', { name: 'Top' }).click() } await page.locator('.topv h1').waitFor() }
      await page.evaluate(axe)
      const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }))
      assert.deepEqual(found.violations.map(v => v.id + ': ' + v.nodes.map(n => n.target + ' ' + n.failureSummary).join('; ')), [], `${view}, ${colorScheme}, ${width}`)
    }
  }
})

test('phone: one column, a finger scrolls, details are a sheet', async () => {
  const { url } = await serve('million.et')
  const page = await open(at(url, '?v=tree'), { viewport: { width: 390, height: 800 }, hasTouch: true, isMobile: true })
  await until(async () => (await names(page)).length, n => n > 10)
  const before = await page.locator('.rows .r').first().getAttribute('aria-rowindex')
  const touch = await page.context().newCDPSession(page)
  const point = y => [{ x: 200, y }]
  await touch.send('Input.dispatchTouchEvent', { type: 'touchStart', touchPoints: point(600) })
  for (let y = 560; y >= 200; y -= 40) await touch.send('Input.dispatchTouchEvent', { type: 'touchMove', touchPoints: point(y) })
  await touch.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] })
  await until(() => page.locator('.rows .r').first().getAttribute('aria-rowindex'), i => Number(i) > Number(before) + 5)
  await page.locator('.rows .r').nth(3).tap()
  await page.locator('.sheet .det').waitFor()
  assert.ok((await page.locator('.det').boundingBox()).y > 200)
})

test('keys: every action has one, and ? shows them', async () => {
  const { url } = await serve('shop.et')
  const page = await open(at(url, '?v=tree'))
  await until(async () => (await names(page)).length, n => n === 13)
  await page.keyboard.press('?')
  await page.getByRole('dialog').waitFor()
  await page.keyboard.press('Escape')
  await until(() => page.getByRole('dialog').count(), n => n === 0)
  await page.keyboard.press('j')
  await until(() => page.locator('[aria-live]').textContent(), t => /GET \/cart, 100.ms, 4 rows below/.test(t))
})
