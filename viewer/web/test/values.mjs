// Odd names and long values of attributes, in details, facets and Why.
import { test } from 'node:test'
import assert from 'node:assert/strict'
import { otlp } from './files.mjs'
import { at, names, open, serve, until } from './rig.mjs'

test('attributes of any name are in facets and Why, and can be chosen', async () => {
  const odd = ['2xx', '7', '3d', '1e5', '4xx.count', '10.0.0.1', 'a?b', 'x:', 'a\\b', 'a"b', 'price€', 'a→b', 'emoji😀', 'स्थिति', 'e\u0301', 'parent.x', 'nil', 'a..b', '']
  const { url } = await serve(otlp('odd.jsonl', Array.from({ length: 40 }, (_, i) => ['op', Object.fromEntries(odd.map(n => [n, i % 2 ? 'odd' : 'even']))])))
  const page = await open(at(url, '?v=tree'))
  await until(async () => (await names(page)).length, n => n > 10)
  await page.locator('.rows .r').nth(3).click()
  const facets = page.locator('.fac')
  await facets.getByText('2xx').first().waitFor()
  assert.doesNotMatch(await facets.textContent(), /not a known name/)
  for (const name of odd) {
    const query = await until(() => page.evaluate(name => {
      const row = [...document.querySelectorAll('.det .kv')].find(e => e.querySelector('.k').textContent === name)
      return row?.querySelector('[aria-label^="Only "]').title.slice(5)
    }, name), q => q, 3000).catch(e => { throw new Error(`${name}: ${e.message}`) })
    const before = await page.inputValue('#query')
    await page.getByRole('button', { name: 'Only ' + query, exact: true }).click({ force: true })
    await until(() => page.inputValue('#query'), v => v !== before)
    await until(() => page.textContent('.hits'), t => /20 hits/.test(t))
  }
  await page.getByRole('tab', { name: 'Why' }).click()
  assert.doesNotMatch(await until(() => page.textContent('.det'), t => /op/.test(t)), /not a known name/)
})

test('details: each attribute has its own value, and JSON keeps its numbers', async () => {
  const long = 'x'.repeat(20_000), json = '{"id": 780177723283783681, "b": [1e400, 10.00, {}], "2": 2, "1": 1, "twice": 1, "twice": 2}'
  const tool = { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'pay', 'gen_ai.tool.call.arguments': json }
  const { url } = await serve(otlp('values.jsonl', Array.from({ length: 30 }, (_, i) => [`op ${i + 1}`, { 12: i === 0 ? 'one ' + long : 'ten', 2: i === 10 ? 'eleven ' + long : 'two', json, ...(i === 2 ? tool : {}) }])))
  const page = await open(at(url, '?v=tree'))
  const select = async name => { await page.locator('.rows .r', { has: page.getByText(name, { exact: true }) }).click(); await page.locator('.det .ttl', { hasText: new RegExp(`^${name}$`) }).waitFor() }
  const value = async name => (await page.locator('.det .kv', { has: page.locator('.k', { hasText: new RegExp(`^${name}$`) }) }).locator('.v').first().textContent())
  await select('op 1')
  await page.getByRole('button', { name: /^Show all / }).click()
  await until(() => value('12'), t => t.length === 20_004)
  await select('op 11')
  assert.match(await value('2'), /^eleven x+$/)
  assert.equal(await value('12'), 'ten')
  assert.equal((await value('json')).replace(/\n */g, '').replace(/,/g, ', '), '{"id": 780177723283783681, "b": [1e400, 10.00, {}], "2": 2, "1": 1, "twice": 1, "twice": 2}'.replaceAll(', ', ', '))
  await select('op 3')
  await page.getByRole('tab', { name: 'Conversation' }).click()
  const said = await until(() => page.textContent('.det .db'), t => /780177723283783681/.test(t))
  assert.match(said, /1e400[^]*10\.00[^]*"2": 2[^]*"1": 1[^]*"twice": 1[^]*"twice": 2/)
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
