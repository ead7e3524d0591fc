// Traces with many rows: how few the page holds, and which stay in sight.
import { spawn } from 'node:child_process'
import { test } from 'node:test'
import assert from 'node:assert/strict'
import { at, children, live, names, open, selected, serve, traces, until } from './rig.mjs'

test('choice: what is selected stays in sight when other rows are chosen', async () => {
  const { url } = await serve('warehouse.et')
  const page = await open(at(url, '?v=tree&d=9'))
  const total = async () => Number(await page.locator('.rows').getAttribute('aria-rowcount'))
  const place = () => page.locator('.rows .r[aria-selected=true]').evaluateAll(list => list.map(e => { const r = e.getBoundingClientRect(), box = e.closest('.rw').getBoundingClientRect(); return r.top >= box.top - 1 && r.bottom <= box.bottom + 1 ? Number(e.dataset.row) : -1 })[0] ?? 0)
  await until(total, n => n === 1800)
  await page.fill('#query', '.warehouse = "north" && name = reserve')
  await page.getByRole('button', { name: 'Only hits' }).click()
  await until(total, n => n === 240)
  await page.locator('.rows').hover()
  await page.mouse.wheel(0, 2000)
  await until(() => page.locator('.rows .r').first().getAttribute('aria-rowindex'), n => Number(n) > 80)
  await page.locator('.rows .r', { hasText: 'reserve' }).nth(4).click()
  const row = await until(place, n => n > 0)
  await page.getByRole('button', { name: 'Clear the query' }).click()
  await until(total, n => n === 1800)
  await until(place, n => n === row)
  assert.equal(await page.getByRole('button', { name: 'Mark', exact: true }).getAttribute('aria-pressed'), 'true')
  // If no row is selected, the first visible row stays visible.
  const second = await open(at(url, '?v=tree&d=9'))
  await until(() => second.locator('.rows .r').count(), n => n > 10)
  await second.locator('.rows').hover()
  await second.mouse.wheel(0, 9000)
  const was = await until(() => second.locator('.rows .r').nth(3).getAttribute('data-row'), n => Number(n) > 300)
  await second.fill('#query', 'name = "POST /checkout" || name = reserve')
  await second.getByRole('button', { name: 'Only hits' }).click()
  await until(async () => Number(await second.locator('.rows').getAttribute('aria-rowcount')), n => n === 1200)
  await until(() => second.locator('.rows .r').nth(8).getAttribute('data-row'), n => Math.abs(Number(n) - was) < 60)
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
  assert.deepEqual(await page.locator('.det .num').evaluateAll(list => list.map(e => [e.textContent, e.title])), [['700000', 'u64']])
  await until(() => selected(page), t => /^item \d+$/.test(t), 5000) // the row is visible
  assert.ok(await page.locator('.r').count() <= 100)
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
