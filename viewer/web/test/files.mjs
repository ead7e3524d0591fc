// Writes the traces in which the tests need odd names, values or times.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { traces } from './rig.mjs'

// otlp writes a file of spans as another program would, and returns its name. A span has a name, attributes, and
// the number of its parent. It begins the time step after the span before it.
export function otlp(name, spans, step = 1_000_000n) {
  const value = v => typeof v === 'bigint' ? { intValue: String(v) } : { stringValue: v }
  const id = n => n.toString(16).padStart(16, '0')
  const list = spans.map(([name, attributes = {}, up = 0], i) => ({
    traceId: '1'.padStart(32, '0'), spanId: id(i + 1), ...(up ? { parentSpanId: id(up) } : {}), name, kind: 2,
    startTimeUnixNano: String(1764201600_000000000n + BigInt(i) * step), endTimeUnixNano: String(1764201600_000500000n + BigInt(i) * step),
    attributes: Object.entries(attributes).map(([key, v]) => ({ key, value: value(v) })),
  }))
  writeFileSync(join(traces, name), JSON.stringify({ resourceSpans: [{ resource: { attributes: [{ key: 'service.name', value: { stringValue: 'worker' } }] }, scopeSpans: [{ scope: { name: 'lib' }, spans: list }] }] }))
  return name
}

otlp('days.jsonl', [['one'], ['two'], ['three']], 86_400_000_000_000n)
otlp('orphans.jsonl', [['handle 0', {}, 900], ['handle 1', {}, 901], ['handle 2'], ['sql', {}, 1]])
const signs = 'step\u001b[31m\b\f"\\ x'
otlp('controls.jsonl', [[signs], [signs], ['other']])
