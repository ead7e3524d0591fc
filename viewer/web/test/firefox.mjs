// The main actions in Firefox, through Puppeteer, because current versions of Firefox support its protocol.
import { execFileSync, spawn } from 'node:child_process'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import assert from 'node:assert/strict'
import puppeteer from 'puppeteer-core'

const { ENTRACE: entrace, TRACES: traces, FIREFOX: firefox } = process.env
let browser
const children = []
before(async () => { browser = await puppeteer.launch({ browser: 'firefox', executablePath: firefox, headless: true }) })
after(async () => { await browser?.close(); for (const c of children) c.kill('SIGKILL') })

const until = async (what, is, ms = 20_000) => {
  for (const end = Date.now() + ms; ;) {
    const got = await what().catch(e => e.message) // while a page loads, a query fails
    if (is(got)) return got
    if (Date.now() > end) assert.fail('it stays ' + JSON.stringify(got))
    await new Promise(r => setTimeout(r, 30))
  }
}

// open serves a file and opens the page in the given state.
async function open(file, state) {
  const child = spawn(entrace, ['view', '--no-open', file], { stdio: ['ignore', 'pipe', 'pipe'], cwd: traces })
  children.push(child)
  const url = await new Promise(r => child.stdout.once('data', d => r(/http:\S+/.exec(d)[0])))
  return goto(url.replace('/#', '/' + state + '#'))
}

async function goto(url) {
  const page = await browser.newPage()
  page.problems = []
  page.on('pageerror', e => page.problems.push(e.message))
  await page.setViewport({ width: 1496, height: 800 })
  await page.goto(url)
  return page
}

const names = page => page.$$eval('.rows .r .t', list => list.map(e => e.textContent))
const text = (page, selector) => page.$eval(selector, e => e.textContent)
const button = (page, name) => page.locator(`::-p-xpath(//button[normalize-space()=${JSON.stringify(name)}])`).click()
const drag = async (page, from, to) => { await page.mouse.move(...from); await page.mouse.down(); await page.mouse.move((from[0] + to[0]) / 2, to[1]); await page.mouse.move(...to); await page.mouse.up() }
const box = (page, selector) => page.$eval(selector, e => { const r = e.getBoundingClientRect(); return { x: r.x, y: r.y, width: r.width, height: r.height } })

test('Firefox: rows, keys, the query, details and Back', async () => {
  const page = await open('shop.et', '?v=tree')
  await until(() => names(page), n => n.length === 13)
  await page.keyboard.press('j')
  await until(() => text(page, '.rows .r[aria-selected=true] .t'), t => t === 'GET /cart')
  await page.keyboard.press('h')
  await until(() => names(page), n => n.length === 9)
  await page.keyboard.press('/')
  await page.keyboard.type('name = "SELECT price"')
  await until(() => text(page, '.hits'), t => /3 hits/.test(t))
  await page.keyboard.press('Enter')
  await until(() => text(page, '.rows .r[aria-selected=true] .t'), t => t === 'SELECT price')
  await until(() => text(page, '.det'), t => /Among 3 of this name/.test(t))
  assert.ok((await page.evaluate(() => window.__entrace.tree)).some(d => d.kind === 'bar' && d.width > 20))
  await page.keyboard.press('1')
  await until(() => text(page, '.topv'), t => /3 errors/.test(t))
  await page.goBack()
  await until(() => text(page, '.rows .r[aria-selected=true] .t'), t => t === 'SELECT price')
  await page.reload()
  await until(() => text(page, '.rows .r[aria-selected=true] .t'), t => t === 'SELECT price')
  assert.deepEqual(page.problems, [])
})

test('Firefox: a part of the time, facets, tables and flames', async () => {
  const page = await open('warehouse.et', '?v=tree')
  await until(() => page.evaluate(() => window.__entrace.strip.length), n => n > 20)
  const strip = await box(page, '.strip')
  await drag(page, [strip.x + 100, strip.y + 20], [strip.x + 400, strip.y + 20])
  await until(() => text(page, '.tool'), t => /roots outside/.test(t))
  await page.keyboard.press('0')
  await until(() => text(page, '.tool'), t => !/roots outside/.test(t))
  await page.locator('.fac .fv').click()
  await until(() => text(page, '.hits'), t => /hits/.test(t))
  await page.keyboard.press('4')
  await until(() => page.$$eval('.tbs tbody tr', l => l.length), n => n > 0)
  await page.keyboard.press('3')
  await until(() => page.evaluate(() => window.__entrace.flame.length), n => n > 1)
  await button(page, 'In time')
  const drawn = await until(() => page.evaluate(() => window.__entrace.lanes), d => d.length > 50)
  const canvas = await box(page, '.fl canvas'), wide = drawn.find(b => b.width > 10 && b.x > 0)
  await page.mouse.click(canvas.x + wide.x + wide.width / 2, canvas.y + wide.y + 5)
  await until(() => text(page, '.fi b'), t => t === wide.name)
  assert.deepEqual(page.problems, [])
})

test('Firefox: a page that is one file, without a program', async () => {
  const out = join(traces, 'firefox.html')
  execFileSync(entrace, ['export', 'shop.et', '--output', out], { cwd: traces })
  const page = await goto('file://' + out + '#v=tree')
  await until(() => names(page), n => n.length >= 9)
  await page.keyboard.press('j')
  await until(() => text(page, '.rows .r[aria-selected=true] .t'), t => t === 'GET /cart')
  assert.deepEqual(page.problems, [])
})
