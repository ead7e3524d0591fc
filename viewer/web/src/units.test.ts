import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { quantiles, steps, x } from './bars'
import { folded, indents, staying } from './indent'
import { markdown } from './issue'
import { conversation } from './said'
import { readToggled, roleSpan, shapeQuery } from './source'
import { Static } from './static'
import {
  duration,
  fieldName,
  frames,
  groups,
  isLibrary,
  marked,
  moment,
  painted,
  plain,
  pretty,
  quoted,
  short,
  sql
} from './text'
import { finder, isQuery } from './words'

test('durations have three digits', () => {
  for (const [n, want] of [
    [0n, '0 ns'],
    [999n, '999 ns'],
    [1000n, '1.00 µs'],
    [12_345n, '12.3 µs'],
    [999_499n, '999 µs'],
    [999_999n, '1.00 ms'],
    [9_994_999n, '9.99 ms'],
    [9_995_000n, '10.0 ms'],
    [61_050_000n, '61.1 ms'],
    [99_949_000n, '99.9 ms'],
    [99_950_000n, '100 ms'],
    [1_840_000_000n, '1.84 s'],
    [59_999_999_999n, '60.0 s'],
    [61_000_000_000n, '1 min 1 s'],
    [7_260_000_000_000n, '2 h 1 min']
  ] as const)
    assert.equal(duration(n).replaceAll('\u202f', ' '), want)
})

test('no nanosecond is lost', () => {
  assert.match(moment(1_700_000_000_123_456_789n, 9), /\.123456789$/)
  const axis = { from: 1_700_000_000_000_000_000n, to: 1_700_000_000_000_000_100n, width: 1000 }
  assert.equal(x(axis, axis.from + 1n), 10)
  assert.equal(x(axis, axis.from + 99n), 990)
  assert.equal(x(axis, 0n), -10)
})

test('the axis has round times, as many as there is room for', () => {
  for (let span = 1n; span < 10n ** 15n; span = (span * 37n) / 10n + 1n) {
    const list = steps({ from: 5n, to: 5n + span, width: 900 })
    assert.ok(list.length <= 14 && (list.length >= 5 || span < 8n), `${list.length} of ${span}`)
    const step = list.length > 1 ? list[1]! - list[0]! : 1n
    const minutes = Number(step) / 6e10
    if (minutes < 1) assert.match(String(step), /^[125]0*$/)
    else
      assert.ok(
        [minutes, minutes / 60, minutes / 1440].some(n => /^([1-35]|6|10|12|15|[2351]0+)$/.test(String(n))),
        `${minutes} minutes`
      )
  }
})

test('what acts on text is shown', () => {
  assert.equal(plain('a\u202eb\u0007c\td\u200fe\nf'), 'a\\u202eb\\u0007c d\\u200fe⏎f')
  assert.equal(plain('käse <b> 中 ❤\ufe0f'), 'käse <b> 中 ❤\ufe0f')
  const scotland = '\u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}'
  assert.equal(plain(scotland), scotland)
  assert.equal(plain('a\u00adb\u034fc\u115fd\u3164e\u{e0041}f'), 'a\\u00adb\\u034fc\\u115fd\\u3164e\\ue0041f')
})

test('long texts are cut between characters', () => {
  for (const [s, n, want] of [
    ['abc', 3, 'abc'],
    ['abcd', 3, 'ab…'],
    ['ab😀cd', 4, 'ab…'],
    ['ab👩\u200d🚀cd', 7, 'ab…'],
    ['cafe\u0301s!', 6, 'cafe\u0301…'],
    ['cafe\u0301s!', 5, 'caf…']
  ] as const)
    assert.equal(short(s, n), want)
})

test('a page that is one file finds by words what the program finds', () => {
  const finds = (q: string, texts: string[], is = ['info', 'ok', 'server']) => finder(q)(texts, is)
  for (const q of ['cart', 'CART get', '"get /c"', 'get ok', 'info', '/cart', 'server cart'])
    assert.ok(finds(q, ['GET /cart']), q)
  for (const q of ['"ok"', 'error', 'OK', '"t /"client']) assert.ok(!finds(q, ['GET /cart']), q)
  assert.ok(finds('istanbul οδοσ \u212aelvin', ['İSTANBUL ΟΔΟΣ kelvin']))
  for (const q of ['not a', 'a && b', '!a', '/a.b/', 'in x', '(a)', 'true', 'a // b', '"a\\"b"', '{ .a = 1 }'])
    assert.ok(isQuery(q), q)
  for (const q of ['notes', '/a/b', '"not" "a && b"', "it's 50%!", 'http://127.0.0.1/x']) assert.ok(!isQuery(q), q)
})

test('a page that is one file opens the rows above the hits', async () => {
  const span = (name: string, up: number, below: number) => ({
    up,
    line: { flags: roleSpan, name, below },
    entry: { role: 'span', name, level: 'INFO', attributes: [] }
  })
  const page = new Static({
    meta: {},
    rows: [span('request', 0, 2), span('call', 1, 1), span('payment', 2, 0)]
  } as never)
  assert.deepEqual(await page.ask('way', { q: 'payment', root: 0, window: '' }), { rows: [1, 2], more: false })
  assert.deepEqual(await page.ask('way', { q: 'payment', root: 2, window: '' }), { rows: [2], more: false })
})

test('names of deep rows have room', () => {
  const all = (from: number, n: number) => Array.from({ length: n }, (_, i) => from + i)
  assert.deepEqual(indents([0, 1, 2], 170), { base: 0, step: 15 })
  for (const depths of [[], [0], all(0, 12), all(0, 40), all(30, 40), all(1800, 46), [5, 2000]]) {
    const { base, step } = indents(depths, 170)
    assert.ok(
      step > 0 && depths.every(d => d >= base || base === 0) && (Math.max(0, ...depths) - base) * step <= 171,
      `${depths.length}: ${base} ${step}`
    )
  }
})

test('the innermost rows stay at the top', () => {
  const chain = (depth: number) => Array.from({ length: depth }, (_, i) => i)
  assert.deepEqual(
    staying(() => [], 6),
    []
  )
  assert.deepEqual(
    staying(n => chain(3 + n), 6),
    [3, 4, 5, 6, 7, 8]
  )
  assert.deepEqual(
    staying(() => chain(2), 6),
    [0, 1]
  )
  assert.deepEqual(
    staying(() => chain(2000), 6),
    [1994, 1995, 1996, 1997, 1998, 1999]
  )
  assert.deepEqual(
    staying(() => chain(9), 1),
    [8]
  )
})

test('long paths are folded', () => {
  assert.deepEqual(folded([1, 2, 3]), { first: [1, 2, 3], hidden: 0, last: [] })
  assert.deepEqual(folded([1, 2, 3, 4, 5, 6, 7]), { first: [1], hidden: 3, last: [5, 6, 7] })
})

test('what is open goes into the address and back', () => {
  const toggled = [3, 4, 1000, 999_999]
  assert.deepEqual(readToggled(shapeQuery({ root: 0, depth: 0, toggled, only: '', window: '', least: 0n }).x), toggled)
  assert.deepEqual(readToggled(null), [])
})

test('queries are written as they are read', () => {
  assert.equal(quoted('a"b\\c\n'), '"a\\"b\\\\c\\n"')
  assert.equal(fieldName('http.route'), '.http.route')
  assert.equal(fieldName('odd name'), '."odd name"')
  assert.deepEqual(['2xx', 'a.2', '', 'a\\b\n', 'é', 'a-b'].map(fieldName), [
    '."2xx"',
    '."a.2"',
    '.""',
    '."a\\\\b\\n"',
    '."é"',
    '."a-b"'
  ])
})

test('a statement has a line for each of its parts', () => {
  assert.equal(
    sql('select a from b left join c on d where e order by f'),
    'select a\nfrom b\nleft join c on d\nwhere e\norder by f'
  )
})

test('the lines of stacks have their places', () => {
  assert.deepEqual(frames('time.Sleep /go/src/runtime/time.go:363\nmain.(*shop).hang /src/shop/main.go:42\n…'), [
    { text: 'time.Sleep', file: '/go/src/runtime/time.go', line: 363 },
    { text: 'main.(*shop).hang', file: '/src/shop/main.go', line: 42 },
    { text: '…' }
  ])
  assert.deepEqual(frames('main.f(0x1)\n\t/src/a b/main.go:7 +0x1d')[1], {
    text: '',
    file: '/src/a b/main.go',
    line: 7
  })
  assert.deepEqual(frames('main.f C:\\src\\main.go:3 +0x1d')[0], { text: 'main.f', file: 'C:\\src\\main.go', line: 3 })
  for (const text of [
    '  at f (C:\\x\\app.js:10:5)',
    '    at /x/app.js:10:5',
    'panic: 12:30',
    'Error: GET http://api.example.com/users/10.2:80',
    'connect ECONNREFUSED 127.0.0.1:5432',
    'a http://x.com:80',
    'proxy db.prod.svc:5432'
  ])
    assert.deepEqual(frames(text), [{ text }])
  assert.equal(frames('x\n'.repeat(1000)).length, 301)
  // An algorithm with quadratic time would take hours.
  for (const text of [
    'x' + ' '.repeat(1 << 20) + '.'.repeat(1 << 20),
    ':1'.repeat(1 << 20),
    ' '.repeat(99_000) + 'x'
  ]) {
    frames(text)
    sql(text)
    painted(text)
    pretty(text)
  }
})

test('frames of libraries are told from those of the program', () => {
  for (const f of [
    'runtime.gopark',
    'sync.(*Mutex).Lock',
    'net/http.HandlerFunc.ServeHTTP',
    'internal/poll.(*FD).Read',
    'go.opentelemetry.io/otel/sdk/trace.(*span).End'
  ])
    assert.ok(isLibrary(f), f)
  for (const f of [
    'main.main',
    'main.(*server).lockA',
    'github.com/acme/shop.Load',
    'example.com/a.b/c.(*T).F',
    'goroutine 21 [sync.Mutex.Lock]:'
  ])
    assert.ok(!isLibrary(f), f)
})

test('words are marked', () => {
  assert.deepEqual(marked('Payment failed, payment', ['payment', 'fail']), [
    '',
    'Payment',
    ' ',
    'fail',
    'ed, ',
    'payment',
    ''
  ])
  assert.deepEqual(marked('nothing', []), ['nothing'])
  assert.deepEqual(marked('aaa', ['a', 'aa']), ['', 'aa', '', 'a', ''])
})

test('queries are painted', () => {
  for (const q of [
    '',
    'payment failed',
    '{ name = "GET /cart" && duration > 50ms } >> { status = error } | count() > 2',
    'a.b-c="x\\"y',
    '"open',
    '`raw',
    '!~ -5 / ü'
  ])
    assert.equal(
      painted(q)
        .map(t => t.text)
        .join(''),
      q
    )
  assert.deepEqual(
    painted('{ status = error && n > 5 } "x"')
      .filter(t => t.kind)
      .map(t => t.kind + t.text),
    ['o{', 'o=', 'nerror', 'o&&', 'o>', 'n5', 'o}', 's"x"']
  )
})

test('the wrong part of a query is marked', () => {
  const wrong = (q: string, at: number) =>
    painted(q, at)
      .filter(t => t.wrong)
      .map(t => t.text)
  assert.deepEqual(wrong('user = eve', 1), ['user'])
  assert.deepEqual(wrong('  user = eve', 8), ['eve'])
  assert.deepEqual(wrong('level = error', 0), [])
  assert.deepEqual(wrong('{ name = ', 9), [])
})

test('attributes are in groups', () => {
  const of = (...names: string[]) =>
    groups(names.map(name => ({ name }))).map(([title, list]) => [title, ...list.map(a => a.name)])
  assert.deepEqual(of('user', 'url.path', 'http.route', 'db.system', 'age'), [
    ['HTTP', 'http.route', 'url.path'],
    ['Database', 'db.system'],
    ['Attributes', 'age', 'user']
  ])
  assert.deepEqual(of(), [])
})

test('a conversation has what is new in each step, in the forms of the conventions', () => {
  const turn = (row: number, name: string, attributes: Record<string, unknown>, more: object = {}) => ({
    row,
    span: row,
    name,
    role: 'span',
    start_unix_nano: null,
    took_nano: null,
    failed: false,
    body: '',
    attributes: Object.entries(attributes).map(([k, v]) => ({
      name: 'gen_ai.' + k,
      kind: 'String',
      value: typeof v === 'string' ? v : JSON.stringify(v)
    })),
    ...more
  })
  const question = { role: 'user', parts: [{ type: 'text', content: 'weather?' }] },
    call = {
      role: 'assistant',
      parts: [{ type: 'tool_call', id: 'c1', name: 'get', arguments: { city: 'Bern' } }],
      finish_reason: 'tool_call'
    }
  const steps = conversation([
    turn(1, 'invoke_agent', { 'input.messages': [question] }),
    turn(2, 'chat', {
      'request.model': 'm',
      system_instructions: [{ type: 'text', content: 'be short' }],
      'input.messages': [question],
      'output.messages': [call],
      'response.finish_reasons': ['tool_call'],
      'usage.input_tokens': '7'
    }),
    turn(3, 'execute_tool get', {
      'operation.name': 'execute_tool',
      'tool.name': 'get',
      'tool.call.id': 'c1',
      'tool.call.arguments': { city: 'Bern' },
      'tool.call.result': 'rain'
    }),
    turn(4, 'chat', {
      'input.messages': [
        question,
        call,
        { role: 'tool', parts: [{ type: 'tool_call_response', id: 'c1', response: 'rain' }] }
      ],
      'output.messages': [{ role: 'assistant', parts: [{ type: 'text', content: 'rain' }] }]
    }),
    turn(5, 'broken', { 'input.messages': '[{"role":', 'output.messages': '7' }),
    turn(6, 'gen_ai.choice', {}, { role: 'log', span: 4, body: '{"message":{"content":"also"}}' })
  ])
  assert.deepEqual(
    steps.map(s => s.said.map(m => [m.role, m.kind, m.text.replace(/\s/g, '')].join(' '))),
    [
      ['user text weather?'],
      ['system text beshort', 'assistant call {"city":"Bern"}'],
      ['tool result rain'],
      ['assistant text rain', 'assistant text also'],
      ['user text [{"role":', 'assistant text 7']
    ]
  )
  assert.deepEqual([steps[1]!.model, steps[1]!.finish, steps[1]!.tokens[0]], ['m', 'tool_call', '7'])
})

test('an issue has what fits, and says what is left out', () => {
  const n = 300
  const rows = Array.from({ length: n }, (_, i) => ({
    row: i + 1,
    start_unix_nano: 0n,
    took_nano: 1_000_000n,
    below: 0,
    errors: 0,
    name: i ? 'a ``` \u001b[31mb\u001b[0m \u001b[2J' : 'root',
    service: 'shop',
    text: 'k=v',
    depth: Math.min(i, 1),
    flags: 3,
    ticks: [],
    parts: []
  }))
  const r = { total: n, outside: 0, first: 0, from_nano: 0n, to_nano: 1n, toggled: null, above: [], rows }
  const text = markdown('a <b> `c`', r, 2000)
  assert.ok(new TextEncoder().encode(text).length <= 2000)
  assert.match(
    text,
    /^a \\<b\\> \\`c\\`, .*\n\n````\nroot 1\.00.ms shop k=v\n {2}a ``` b \\u001b\[2J 1\.00.ms shop k=v\n/
  )
  const shown = text.split('\n').filter(l => l.includes('k=v')).length
  assert.ok(text.endsWith('\n````\n\n' + (n - shown) + ' more rows are left out.\n') && shown > 10)
})

test('colors of names can be told from the ground, and nearly all from each other, in both themes', () => {
  const css = readFileSync('src/app.css', 'utf8')
  const color = (name: string, dark: boolean) => {
    const both = new RegExp(`--${name}: light-dark\\((#\\w+), (#\\w+)\\)`).exec(css)!
    const hex = both[dark ? 2 : 1]!.slice(1),
      long = hex.length === 3 ? [...hex].map(c => c + c).join('') : hex
    return [0, 2, 4].map(i => {
      const c = parseInt(long.slice(i, i + 2), 16) / 255
      return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4
    })
  }
  const light = ([r, g, b]: number[]) => 0.2126 * r! + 0.7152 * g! + 0.0722 * b!
  const lab = ([r, g, b]: number[]) => {
    // OKLab
    const [l, m, s] = [
      [0.4122214708, 0.5363325363, 0.0514459929],
      [0.2119034982, 0.6806995451, 0.1073969566],
      [0.0883024619, 0.2817188376, 0.6299787005]
    ].map(([x, y, z]) => Math.cbrt(x! * r! + y! * g! + z! * b!)) as [number, number, number]
    return [
      0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
      1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
      0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s
    ]
  }
  for (const dark of [false, true]) {
    const names = Array.from({ length: 10 }, (_, i) => color(`s${8 + i}`, dark))
    for (const ground of ['bg', 'sunk', 'hover', 'sel'].map(n => light(color(n, dark))))
      for (const n of names) {
        const [a, b] = [light(n), ground].sort((a, b) => b - a) as [number, number]
        assert.ok((a + 0.05) / (b + 0.05) >= 3, `${n} on ${ground}`)
      }
    for (const [i, a] of names.entries())
      for (const b of names.slice(i + 1))
        assert.ok(Math.hypot(...lab(a).map((v, j) => v - lab(b)[j]!)) >= 0.095, `${a} and ${b}`)
  }
})

test('quantiles over time: columns with few requests share a value, and open requests do not count', () => {
  const cell = (x: number, y: number, count: number) => ({ x, y, count, failed: 0 })
  const cells = [cell(0, 0, 6), cell(1, 0, 5), cell(1, 1, 1), cell(1, 3, 90), cell(3, 2, 24), cell(4, 0, 3)]
  const edges = [0, 10, 100, 1000]
  assert.deepEqual(quantiles(cells, 6, edges, 0.5), [10, 10, 1000, 1000, 1000, 1000])
  assert.deepEqual(quantiles(cells, 6, edges, 0.99), [100, 100, 1000, 1000, 1000, 1000])
  assert.deepEqual(quantiles(cells.slice(0, 1), 6, edges, 0.5), [])
})
