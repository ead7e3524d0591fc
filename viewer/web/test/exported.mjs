// Pages that are one file, beside the served page.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { test } from 'node:test'
import assert from 'node:assert/strict'
import { at, entrace, names, open, rowsAre, selected, serve, traces, until } from './rig.mjs'

// strips returns shapes drawn on the strip.
const strips = (page, kind) => page.evaluate(kind => (window.__entrace?.strip ?? []).filter(d => d.kind === kind), kind)

test('export: a page that is one file, without network: tree, strip, Why, words, errors, and what it cannot', async () => {
  const file = join(traces, 'report.html')
  execFileSync(entrace, ['export', 'shop.et', '-o', file], { cwd: traces })
  const page = await open('file://' + file, { offline: true, tab: 'why' })
  await page.getByRole('heading', { name: 'Slowest requests' }).waitFor()
  await page.getByRole('button', { name: /^payment failed/ }).click()
  await until(() => selected(page), t => t === 'payment failed')
  const served = await open(at((await serve('shop.et')).url, '?v=tree&d=9'), { tab: 'why' })
  await until(async () => (await names(served)).length, n => n === 13)
  await page.goto('about:blank')
  await page.goto('file://' + file + '#v=tree&d=9')
  await rowsAre(page, await names(served))
  const looks = p => p.$$eval('.rows .r', list => list.map(e => e.textContent))
  assert.deepEqual(await looks(page), await looks(served))
  const drawn = p => p.evaluate(() => window.__entrace.tree.map(d => [d.kind, Math.round(d.x), d.y, Math.round(d.width)].join()).sort())
  await until(() => drawn(page), d => d.length > 20)
  assert.deepEqual(await drawn(page), await drawn(served))
  await until(() => strips(page, 'bar'), d => d.length > 3)
  const errors = async p => (await strips(p, 'error')).map(d => Math.round(d.x / 5)) // the parts of the time are not equally wide
  assert.deepEqual(await errors(page), await errors(served))
  await page.locator('#query').fill('payment')
  await until(() => page.textContent('.hits'), t => /1 hit/.test(t))
  await page.getByRole('button', { name: 'Errors', exact: true }).click()
  await until(() => page.textContent('.hits'), t => /3 hits/.test(t))
  await page.locator('#query').fill('duration > 1ms')
  await page.getByText("needs 'entrace view'").first().waitFor()
  await page.getByRole('button', { name: 'Clear the query' }).click()
  await page.getByRole('button', { name: 'Mark' }).click()
  await page.locator('.rows .r').nth(2).click()
  await page.locator('.det').getByRole('tab', { name: 'Attributes' }).click()
  await page.locator('.det').getByText('SELECT sku').waitFor()
  await page.getByRole('tab', { name: 'Table' }).click()
  await until(() => page.locator('.tbs tbody tr').count(), n => n > 3)
  await page.getByRole('tab', { name: 'Flame' }).click()
  await page.locator('.fi').waitFor()
  await page.goBack()
  await page.locator('.tbs').waitFor()
  assert.deepEqual(page.requests.filter(u => !u.startsWith('file:') && !u.startsWith('data:') && u !== 'about:blank'), [])
})

test('top: the cause is said first, with its evidence and what shows it, also by a page that is one file', async () => {
  const file = join(traces, 'cause.html')
  execFileSync(entrace, ['export', 'warehouse.et', '-o', file], { cwd: traces })
  const page = await open((await serve('warehouse.et')).url), exported = await open('file://' + file + '#v=top', { offline: true })
  for (const p of [page, exported]) {
    const text = await until(() => p.locator('section', { hasText: 'cause: stock, reserve, where .warehouse = "north"' }).textContent(), t => t.includes('120 of these 120 calls'))
    assert.match(text, /600 requestsPOST \/checkout, in reserve of stock, .* of request time.*1 reserve stock120 of 600 took over \d+ms, at the median \d+ms instead of [\d.]+ms\.warehouse = "north": 120 of these 120 calls, 0 of the 480 others/)
  }
  assert.equal(await exported.getByRole('button', { name: 'Show in the tree' }).count(), 0)
  await page.getByRole('button', { name: 'Show in the tree' }).click()
  await until(() => page.textContent('.hits'), t => /of 120 hits/.test(t))
  for (const q of ['north', 'warehouse NORTH', '"warehouse north"', 'stock', 'traces', 'reserve "north"', '"a=b"']) { // a static page finds the same rows
    const found = []
    for (const p of [page, exported]) {
      await p.fill('#query', q)
      await p.waitForTimeout(500)
      found.push(/(\d[\d,]*|no) hits?/.exec(await p.textContent('.hits'))[1])
    }
    assert.equal(found[1], found[0], q)
  }
})

test('export: Why says what the served page says', async () => {
  const file = join(traces, 'warehouse.html')
  execFileSync(entrace, ['export', 'warehouse.et', '-o', file], { cwd: traces })
  const said = async page => {
    await page.locator('.rows .r', { hasText: 'reserve' }).first().click()
    const det = page.locator('.det')
    await until(() => det.textContent(), t => /What the slow ones share \(120 over \d+\sms, and 480 others\)/.test(t))
    return { stands: (await det.textContent()).match(/Among 600 of this name.*Slower than \d+\s%; median [\d.]+\sms/)[0], split: (await det.textContent()).match(/over \d+\sms/)[0], shares: await det.locator('.shr').allTextContents(), path: await until(() => det.locator('.sec', { hasText: 'Critical path' }).allTextContents(), l => l.length > 0) }
  }
  const page = await open('file://' + file + '#v=tree&d=9', { offline: true, tab: 'why' }), served = await open(at((await serve('warehouse.et')).url, '?v=tree&d=9'), { tab: 'why' })
  assert.deepEqual(await said(page), await said(served))
})

test('export: a flame in time has the spans of the served page and can be zoomed; one by number is that of the served page', async () => {
  for (const name of ['shop', 'warehouse']) {
    const file = join(traces, name + '-flame.html')
    execFileSync(entrace, ['export', name + '.et', '-o', file], { cwd: traces })
    const pages = [await open('file://' + file + '#v=flame', { offline: true }), await open(at((await serve(name + '.et')).url, '?v=flame'))]
    const [copy] = pages
    const each = async act => { for (const p of pages) await act(p) }
    await each(p => p.getByRole('button', { name: 'In time' }).click())
    const lanes = p => p.evaluate(() => { // the spans of each lane
      const spans = {}
      for (const b of window.__entrace.lanes) spans[b.y] = (spans[b.y] ?? 0) + b.count
      return spans
    })
    await until(() => Promise.all(pages.map(lanes)), ([a, b]) => Object.keys(a).length > 1 && JSON.stringify(a) === JSON.stringify(b))
    const widest = () => copy.evaluate(() => Math.max(...window.__entrace.lanes.map(b => b.width)))
    const before = await widest()
    await copy.locator('.fl').hover()
    for (let i = 0; i < 6; i++) await copy.keyboard.press('w')
    await until(widest, w => w > 100 && w !== before)
    await copy.waitForTimeout(500) // until nothing moves
    const b = await copy.evaluate(() => window.__entrace.lanes.toSorted((a, b) => a.width - b.width || a.y - b.y || a.x - b.x)[0])
    await copy.locator('.fl canvas').dblclick({ position: { x: b.x + b.width / 2, y: b.y + 5 } }) // one of the shortest runs
    await until(widest, w => w > 500)
    await copy.keyboard.press('0')
    await copy.fill('#query', 'authorize')
    await copy.getByText("A part of the spans over time needs 'entrace view'").waitFor()
    await copy.getByRole('button', { name: 'Clear the query' }).click()
    await until(() => lanes(copy), l => Object.keys(l).length > 1)
    await each(async p => { await p.getByRole('button', { name: 'Number', exact: true }).click() })
    await until(() => pages[0].locator('.fi').textContent(), t => /spans?/.test(t))
    const flame = p => p.evaluate(() => window.__entrace.flame.map(b => [b.name, Math.round(b.x), b.y, Math.round(b.width)].join()))
    await until(() => Promise.all(pages.map(flame)), ([a, b]) => b.length > 1 && JSON.stringify(a) === JSON.stringify(b))
  }
})
