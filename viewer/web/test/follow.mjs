// Measures the cost of the page while it follows a service that writes a thousand log records a second for a
// minute. It prints how much processor time the page and the server used, and whether rows were still missing at
// the end.
import chromium from '@sparticuz/chromium'
import { spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { chromium as playwright } from 'playwright-core'

const { ENTRACE: entrace, LIVE: live, DIR: dir, SECONDS: seconds = '60' } = process.env
const recorder = spawn(live, [dir, 'live'], { stdio: ['pipe', 'pipe', 'inherit'] })
recorder.stdout.resume()
recorder.stdin.write('first\n')
await new Promise(r => recorder.stdout.once('data', r))
const child = spawn(entrace, ['view', '--no-open', '--follow', dir + '/live.et'], { stdio: ['ignore', 'pipe', 'inherit'] })
const url = await new Promise(r => child.stdout.once('data', d => r(/http:\S+/.exec(d)[0])))
const browser = await playwright.launch({ executablePath: await chromium.executablePath(), args: chromium.args.filter(a => !/single-process|no-zygote/.test(a)), headless: true })
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
await page.goto(url.replace('/#', '/?v=tree#'))
await page.locator('.rows .r .t').first().waitFor()
await page.keyboard.press('End')

// cpu returns the processor time of processes in seconds.
const cpu = is => readdirSync('/proc').filter(p => /^\d+$/.test(p)).reduce((sum, p) => {
  try {
    if (!is(p, readFileSync(`/proc/${p}/cmdline`, 'latin1'))) return sum
    const f = readFileSync(`/proc/${p}/stat`, 'latin1').replace(/.*\) /, '').split(' ')
    return sum + (Number(f[11]) + Number(f[12])) / 100
  } catch { return sum }
}, 0)
const renderers = (p, line) => line.includes('--type=renderer'), server = p => p === String(child.pid)
const before = [cpu(renderers), cpu(server)]
let n = 0
const begun = Date.now()
while (Date.now() - begun < seconds * 1000) {
  const due = Math.floor((Date.now() - begun))
  let lines = ''
  for (; n < due; n++) lines += `row ${n}\n`
  if (lines) recorder.stdin.write(lines)
  await new Promise(r => setTimeout(r, 10))
}
const took = (Date.now() - begun) / 1000, after = [cpu(renderers), cpu(server)]
const end = Date.now(), last = `row ${n - 1}`
await page.locator('.rows .r .t', { hasText: last }).first().waitFor({ timeout: 30_000 })
console.log(`following ${n} rows in ${took.toFixed(0)} s: the last is in sight after ${Date.now() - end} ms, the page took ${((after[0] - before[0]) / took * 100).toFixed(1)} % of a core, the server ${((after[1] - before[1]) / took * 100).toFixed(1)} %`)
recorder.kill()
child.kill()
await browser.close()
process.exit()
