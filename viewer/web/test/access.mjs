// The page for everybody: axe, forced colors, paper, fingers, input methods.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import assert from 'node:assert/strict'
import { otlp } from './files.mjs'
import { at, names, open, selected, serve, until } from './rig.mjs'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

test('accessible: axe finds nothing, in light and dark, at every width', async () => {
  const { url } = await serve('shop.et')
  for (const [colorScheme, width] of [['light', 1280], ['dark', 1280], ['light', 640], ['dark', 390]]) {
    const page = await open(at(url, '?v=tree'), { colorScheme, viewport: { width, height: 800 } })
    await until(async () => (await names(page)).length, n => n >= 10)
    await page.locator('.rows .r').nth(2).click()
    await page.locator('.det').getByText('SELECT sku').waitFor()
    for (const view of ['tree', 'why', 'table', 'flame', 'top']) {
      if (view === 'why') { await page.locator('.det').getByRole('tab', { name: 'Why' }).click(); await page.locator('.det .says').first().waitFor() }
      if (view === 'table') { if (width > 720) await page.keyboard.press('4'); else { await page.locator('.scrim').click({ position: { x: 5, y: 5 } }); await page.getByRole('tab', { name: 'Table' }).click() } await page.locator('.tbs').waitFor() }
      if (view === 'flame') { await page.getByRole('tab', { name: 'Flame' }).click(); await page.locator('.fi').waitFor() }
      if (view === 'top') { await page.getByRole('tab', { name: 'Overview' }).click(); await page.locator('.topv .tg').waitFor() }
      await page.evaluate(axe)
      const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }))
      assert.deepEqual(found.violations.map(v => v.id + ': ' + v.nodes.map(n => n.target + ' ' + n.failureSummary).join('; ')), [], `${view}, ${colorScheme}, ${width}`)
    }
  }
})

test('forced colors, low windows and paper: what is chosen is seen, rows have room, all is printed', async () => {
  const { url } = await serve('shop.et')
  const page = await open(at(url, '?v=tree&len=0&s=2'), { forcedColors: 'active' })
  await page.locator('.rows [aria-selected=true]').waitFor()
  const style = (what, key) => page.locator(what).first().evaluate((e, key) => getComputedStyle(e)[key], key)
  assert.equal(await style('.rows [aria-selected=true]', 'outlineStyle'), 'solid')
  assert.equal(await style('[aria-pressed=true]', 'outlineStyle'), 'solid')
  const low = await open(at(url, '?v=tree&len=0'), { viewport: { width: 640, height: 400 } })
  await until(() => low.evaluate(() => document.querySelector('.rows')?.clientHeight), h => h >= 150)
  const paper = await open(url, { viewport: { width: 1280, height: 400 }, colorScheme: 'dark' })
  await paper.getByRole('heading', { name: 'Slowest requests' }).waitFor()
  await paper.emulateMedia({ media: 'print' })
  assert.ok(await paper.evaluate(() => document.querySelector('.topv').scrollHeight <= document.querySelector('.topv').clientHeight))
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

test('input: a pinch zooms as far as it goes, an input method keeps its Enter, keys scroll what has the focus, in any alphabet', async () => {
  const { url } = await serve(otlp('input.jsonl', Array.from({ length: 40 }, (_, i) => ['op', { stack: 'line\n'.repeat(200) }])))
  const page = await open(at(url, '?v=tree&len=0'), { viewport: { width: 1280, height: 500 } })
  await page.locator('.rows .r').nth(1).click()
  const width = async () => Number(new URL(page.url()).searchParams.get('w')?.split('-').reduce((a, b) => b - a) ?? 40e6)
  await page.mouse.move(700, 300)
  await page.keyboard.down('Control')
  for (let i = 0; i < 30; i++) await page.mouse.wheel(0, -1)
  await page.keyboard.up('Control')
  await until(width, w => w < 35e6 && w > 20e6)
  const selected = () => page.locator('.rows [aria-selected=true]').getAttribute('data-row')
  const before = await selected()
  await page.locator('.det .kv').first().focus()
  await page.keyboard.press('PageDown')
  await until(() => page.evaluate(() => document.querySelector('.det').scrollTop + [...document.querySelectorAll('.det *')].reduce((n, e) => n + e.scrollTop, 0)), n => n > 0)
  assert.equal(await selected(), before)
  await page.locator('#query').focus()
  await page.evaluate(() => document.getElementById('query').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', isComposing: true, bubbles: true })))
  assert.equal(await page.evaluate(() => document.activeElement.id), 'query')
  await page.locator('.rows .r').nth(1).click()
  await page.evaluate(() => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'о', code: 'KeyJ', bubbles: true })))
  await until(selected, row => row && row !== before)
})
