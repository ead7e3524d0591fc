// Measures the page with a large file: the time from the command to the first rows, and the frames during ten
// seconds of scrolling and of zooming. The output says how fast this machine is. No result is an error.
import chromium from '@sparticuz/chromium'
import { spawn } from 'node:child_process'
import { chromium as playwright } from 'playwright-core'

const { ENTRACE: entrace, FILE: file } = process.env
const browser = await playwright.launch({ executablePath: await chromium.executablePath(), args: chromium.args.filter(a => !/single-process|no-zygote/.test(a)), headless: true })
const begun = Date.now()
const child = spawn(entrace, ['view', '--no-open', file], { stdio: ['ignore', 'pipe', 'inherit'] })
const url = await new Promise(r => child.stdout.once('data', d => r(/http:\S+/.exec(d)[0])))
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
await page.goto(url.replace('/#', '/?v=tree#'))
await page.locator('.rows .r .t').first().waitFor()
console.log(`first rows after ${Date.now() - begun} ms`)

// frames measures the cost of a frame: the time of our work in it, and the time between frames.
async function frames(name, step) {
  await page.evaluate(() => {
    const f = window.frames_ = { work: [], apart: [], last: performance.now(), on: true }
    const channel = new MessageChannel()
    let start = 0
    channel.port1.onmessage = () => f.work.push(performance.now() - start) // after layout and paint
    const tick = now => {
      if (!f.on) return
      f.apart.push(now - f.last)
      f.last = now
      start = performance.now()
      channel.port2.postMessage(0)
      requestAnimationFrame(tick)
    }
    requestAnimationFrame(tick)
  })
  for (const end = Date.now() + 10_000; Date.now() < end;) { await step(); await page.waitForTimeout(16) }
  const f = await page.evaluate(() => { window.frames_.on = false; return window.frames_ })
  const at = (list, q) => [...list].sort((a, b) => a - b)[Math.floor(list.length * q)]?.toFixed(1)
  console.log(`${name}: ${f.work.length} frames, work at the 95th percentile ${at(f.work, .95)} ms, frames apart at most ${at(f.apart, 1 - 1e-9)} ms`)
}

await page.mouse.move(300, 400)
await frames('scroll', () => page.mouse.wheel(0, 900))
await page.mouse.move(900, 400)
let way = -1, n = 0
await page.keyboard.down('Control')
await frames('zoom', () => { if (++n % 40 === 0) way = -way; return page.mouse.wheel(0, way * 100) })
await page.keyboard.up('Control')
await page.getByRole('tab', { name: 'Flame' }).click()
await page.getByRole('button', { name: 'In time' }).click()
await page.locator('.fn').waitFor()
await page.keyboard.press('0')
await page.keyboard.down('Control')
way = -1
n = 0
await frames('zoom a flame in time', () => { if (++n % 40 === 0) way = -way; return page.mouse.wheel(0, way * 100) })
await page.keyboard.up('Control')
await page.keyboard.down('Shift')
await frames('pan a flame in time', () => page.mouse.wheel(0, n++ % 80 < 40 ? 100 : -100))
await page.keyboard.up('Shift')
const status = (await import('node:fs')).readFileSync(`/proc/${child.pid}/status`, 'utf8')
console.log('server', /RssAnon:\s+(\d+ kB)/.exec(status)?.[1])
await browser.close()
child.kill()
