// The program behind the page: who may see a trace, what a link carries, and what happens when files or the program go.
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import assert from 'node:assert/strict'
import { otlp } from './files.mjs'
import { at, browser, entrace, names, open, pages, selected, serve, start, traces, until } from './rig.mjs'

test('door: without the token the page says what to do, and has nothing', async () => {
  const { url } = await serve('shop.et')
  const page = await open(url.replace(/#.*/, ''))
  await page.getByText('This page may not see the trace').waitFor()
  assert.ok(!(await page.content()).includes('GET /cart'))
  const first = await open(url)
  await first.locator('.topv .tg').waitFor()
  const second = await first.context().newPage() // in another tab of the same browser
  await second.goto(url.replace(/#.*/, ''))
  await second.locator('.topv .tg').waitFor()
  await page.goto(url) // in the same tab
  await page.locator('.topv .tg').waitFor()
  assert.ok(!page.url().includes('token'))
})

test('once: it ends after the last page, and a reload is no end', async () => {
  const { url, child } = await start('shop.et', '--once')
  const ended = new Promise(r => child.once('exit', r))
  const page = await open(url)
  await page.locator('.topv .tg').waitFor()
  await page.reload()
  await page.locator('.topv .tg').waitFor()
  const first = await Promise.race([ended, new Promise(r => setTimeout(r, 6500, 'runs'))])
  assert.equal(first, 'runs')
  await page.close()
  assert.equal(await ended, 0)
})

test('embed: within the page of an editor, and of no site', async () => {
  const { url } = await serve('shop.et')
  const ancestors = async path => /frame-ancestors ([^;]*)/.exec((await fetch(new URL(path, url))).headers.get('content-security-policy'))[1]
  assert.equal(await ancestors('/'), "'none'")
  assert.equal(await ancestors('/?embed=1'), 'vscode-webview: vscode-file:')
  assert.equal(await ancestors('/?embed=2'), "'none'")
  const context = await browser.newContext({ viewport: { width: 700, height: 600 } })
  const page = await context.newPage()
  const problems = []
  pages.push({ page, problems })
  page.on('pageerror', e => problems.push(e.message))
  page.on('popup', () => problems.push('a popup'))
  // an editor may deny the page any storage
  await page.addInitScript(() => { for (const name of ['localStorage', 'sessionStorage']) Object.defineProperty(window, name, { get() { throw new DOMException('denied', 'SecurityError') } }) })
  await page.goto(at(url, '?embed=1'))
  await page.locator('.topv .tg').waitFor()
  assert.equal(await page.locator('footer').count(), 0)
  assert.equal(await page.locator('.brand').isVisible(), false)
  await page.getByRole('tab', { name: 'Tree' }).click()
  await until(async () => (await names(page)).length, n => n > 5)
  await page.getByRole('button', { name: /^Theme/ }).click()
  assert.match(page.url(), /embed=1/)
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

test('failures: a link with what cannot be asks a few times, and not for ever', async () => {
  const { url, child } = await start('shop.et')
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
  await page.getByLabel('Open levels').selectOption('1')
  await page.getByText('does not answer').waitFor()
  await page.waitForTimeout(1000)
  assert.ok(page.requests.length - before < 6)
  for (const p of pages) p.deserted = true // it is expected that the server does not answer
})

test('save: the selection in each format, with the bytes that convert writes', async () => {
  const { url } = await serve('shop.et')
  const page = await open(at(url, '?v=tree'))
  const formats = await page.getByLabel('Save as').locator('option[value]:not([disabled])').evaluateAll(list => list.map(o => o.value))
  assert.ok(formats.length >= 8 && formats.includes('parquet'), formats)
  const query = 'name = "SELECT price"'
  await page.fill('#query', query)
  await until(() => page.textContent('.hits'), t => /3 hits/.test(t))
  for (const format of formats) {
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByLabel('Save as').selectOption(format)])
    const got = readFileSync(await download.path())
    const want = execFileSync(entrace, ['convert', 'shop.et', '-q', query, '--to', format], { cwd: traces })
    assert.ok(got.equals(want), `${format}: ${got.length} bytes, want ${want.length}`)
    await page.waitForTimeout(200) // the browser allows ten downloads a second
  }
})

test('a file that is truncated, or overwritten, says so, and no old details stay', async () => {
  for (const [kind, change] of [['truncated', f => truncateSync(f, 0)], ['overwritten', f => writeFileSync(f, readFileSync(join(traces, 'second.et')))]]) {
    execFileSync(entrace, ['convert', otlp('first.jsonl', Array.from({ length: 30 }, (_, i) => [`op ${i}`])), `${kind}.et`], { cwd: traces })
    execFileSync(entrace, ['convert', '--force', otlp('second.jsonl', Array.from({ length: 30 }, (_, i) => [`other ${i}`])), 'second.et'], { cwd: traces })
    const { url } = await start(`${kind}.et`)
    const page = await open(at(url, '?v=tree'), { tab: 'attributes' })
    pages.at(-1).deserted = true // the browser logs each response with status 409
    await page.locator('.rows .r', { hasText: 'op 3' }).first().click()
    await page.locator('.det .ttl', { hasText: 'op 3' }).waitFor()
    change(join(traces, `${kind}.et`))
    await new Promise(r => setTimeout(r, 1100))
    await page.locator('.rows .r', { hasText: 'op 6' }).first().click()
    const says = kind === 'truncated' ? /was truncated while it was open/ : /was overwritten while it was open/
    const details = await until(() => page.textContent('.det'), t => says.test(t))
    assert.doesNotMatch(details, /op 3/)
    await page.reload()
    await until(() => page.textContent('body'), t => says.test(t))
  }
})

test('details of the row before do not stay when the program has gone', async () => {
  const { url, child } = await start(otlp('gone.jsonl', Array.from({ length: 30 }, (_, i) => [`op ${i}`])))
  const page = await open(at(url, '?v=tree'))
  pages.at(-1).deserted = true
  await page.locator('.rows .r', { hasText: 'op 3' }).first().click()
  await page.locator('.det .ttl', { hasText: 'op 3' }).waitFor()
  child.kill('SIGKILL')
  await new Promise(r => child.on('exit', r))
  await page.locator('.rows .r', { hasText: 'op 6' }).first().click()
  assert.doesNotMatch(await until(() => page.textContent('.det'), t => /cannot be read/.test(t)), /op 3/)
})

test('files: what cannot be read any more and what a folder has beside its traces is said', async () => {
  const folder = join(traces, 'odd')
  mkdirSync(folder)
  copyFileSync(join(traces, 'deep.et'), join(folder, 'a.et'))
  symlinkSync('gone.et', join(folder, 'dangling.et'))
  writeFileSync(join(folder, 'empty.et'), '')
  const page = await open(at((await start('odd')).url, '?v=tree&d=3000'))
  await until(async () => (await names(page)).length, n => n > 20)
  assert.match(await page.locator('section[aria-label=Notices]').textContent(), /dangling\.et is skipped: not a regular file.*empty\.et is skipped: the file is empty/)
  writeFileSync(join(folder, 'a.et'), 'junk'.repeat(20_000))
  await page.mouse.move(300, 400)
  await page.mouse.wheel(0, 22 * 1000)
  await page.locator('.rows .r', { hasText: 'this row cannot be read' }).first().waitFor()
  pages.at(-1).deserted = true // the console has the failed response
})

test('top: a part of the time that is chosen while the first answer is on its way', async () => {
  const page = await browser.newContext({ viewport: { width: 1280, height: 800 } }).then(c => c.newPage())
  pages.push({ page, problems: [] })
  let asked = 0, go
  const held = new Promise(r => { go = r })
  await page.route('**/api/top*', async r => { if (!asked++) await held; await r.continue() })
  await page.goto(at((await serve('warehouse.et')).url, '?v=top'))
  await page.locator('.strip canvas').waitFor()
  const b = await page.locator('.strip').boundingBox()
  await page.mouse.move(b.x + 100, b.y + 20)
  await page.mouse.down()
  await page.mouse.move(b.x + 160, b.y + 20, { steps: 5 })
  await page.mouse.up()
  await until(() => page.url(), u => /[?&]t=/.test(u))
  go()
  await until(() => page.locator('.topv .all').textContent({ timeout: 20_000 }), t => /^\d{2,3} spans/.test(t)) // fewer than the 1,800 of the whole trace
})
