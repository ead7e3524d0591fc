// What the tests of the page share: a browser, servers, pages, and waiting for what is seen.
import chromium from '@sparticuz/chromium'
import { spawn } from 'node:child_process'
import { after, afterEach, before } from 'node:test'
import assert from 'node:assert/strict'
import { chromium as playwright } from 'playwright-core'

export const { ENTRACE: entrace, TRACES: traces, LIVE: live, SHOTS: shots } = process.env

export let browser
export const children = []
before(async () => {
  browser = await playwright.launch({ executablePath: await chromium.executablePath(), args: chromium.args.filter(a => !/single-process|no-zygote/.test(a)), headless: true })
})
after(async () => { await browser?.close(); for (const c of children) c.kill('SIGKILL') })

// start starts a viewer and returns its address.
export function start(...args) {
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

// serve is start, but tests that name the same arguments have the same viewer. So the files must not change.
const servers = new Map()
export function serve(...args) {
  const key = args.join('\n')
  if (!servers.has(key)) servers.set(key, start(...args))
  return servers.get(key)
}

export const pages = []
afterEach(async () => { for (const p of pages.splice(0)) { if (!p.deserted) assert.deepEqual(p.problems, []); await p.page.context().close() } })

// open opens the page in a browser of a size that has space for facets, and for a tree of 1280 pixels with the
// details. The details show the given tab.
export async function open(url, { tab = 'attributes', ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1496, height: 800 }, permissions: ['clipboard-read', 'clipboard-write'], timezoneId: 'UTC', ...options })
  if (tab !== 'why') await context.addInitScript(`localStorage.setItem('entrace-tab', localStorage.getItem('entrace-tab') ?? '${tab}')`)
  const page = await context.newPage()
  page.setDefaultTimeout(60_000)
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

export const at = (url, state) => url.replace(/\/[^/#]*#/, '/' + state + '#')
export const names = page => page.$$eval('.rows .r .t', list => list.map(e => e.textContent))
export const selected = async page => (await page.locator('.rows .r[aria-selected=true] .t').allTextContents())[0]
export const until = async (what, is, ms = 60_000) => {
  for (const end = Date.now() + ms; ;) {
    const got = await what()
    if (is(got)) return got
    if (Date.now() > end) assert.fail('it stays ' + JSON.stringify(got))
    await new Promise(r => setTimeout(r, 20))
  }
}
export const rowsAre = (page, want) => until(() => names(page), got => JSON.stringify(got) === JSON.stringify(want))
