// The messages of a conversation with a model, as OpenTelemetry's conventions for generative AI record them.
import type { Turn } from './source'
import { indented } from './text'

// A Said is a message, a tool call or its result.
export interface Said {
  role: string
  kind: 'text' | 'call' | 'result' | 'other'
  text: string
  name?: string
  id?: string
}

// A Step is a span of the conversation, with the messages that are new in it.
export interface Step {
  row: number
  name: string
  model: string
  tokens: [string, string]
  finish: string
  took: bigint | null
  failed: boolean
  said: Said[]
}

// sources has the original texts of objects and arrays, so that numbers can be shown as they were recorded.
const sources = new WeakMap<object, string>()

// json parses a text. Values other than objects, arrays and texts become their source text.
function json(text: string): unknown {
  try {
    JSON.parse(text)
  } catch {
    return undefined
  }
  const token = /\s*("(?:\\.|[^"\\])*"|[^\s,:[\]{}"]+|[,:[\]{}])/gy
  const next = () => token.exec(text)![1]!
  const value = (first: string): unknown => {
    if (first[0] === '"') return JSON.parse(first)
    if (first !== '[' && first !== '{') return first === 'null' ? null : first
    const from = token.lastIndex - 1
    const list: unknown[] = [],
      object: Record<string, unknown> = Object.create(null)
    for (let t = next(); t !== ']' && t !== '}'; t = next()) {
      if (t === ',') continue
      if (first === '[') {
        list.push(value(t))
        continue
      }
      next()
      object[JSON.parse(t) as string] = value(next())
    }
    const made = first === '[' ? list : object
    sources.set(made, text.slice(from, token.lastIndex))
    return made
  }
  try {
    return value(next())
  } catch {
    return undefined
  } // the text is nested too deeply
}

const textOf = (v: unknown): string =>
  typeof v === 'object' && v !== null ? indented(sources.get(v) ?? '') : typeof v === 'string' ? v : ''
const isObject = (v: unknown): v is Record<string, unknown> => typeof v === 'object' && v !== null && !Array.isArray(v)

// parts returns the content of a message. Messages of the current conventions have parts; messages of earlier
// conventions have content and tool calls.
function parts(m: unknown, role: string): Said[] {
  if (!isObject(m)) return textOf(m) ? [{ role, kind: 'text', text: textOf(m) }] : []
  const by = typeof m.role === 'string' ? m.role : role
  const list: unknown[] = Array.isArray(m.parts)
    ? m.parts
    : Array.isArray(m.content)
      ? m.content
      : 'type' in m
        ? [m]
        : []
  const said = list.flatMap((p): Said[] => {
    if (!isObject(p)) return [{ role: by, kind: 'text', text: textOf(p) }]
    const id = typeof p.id === 'string' ? p.id : ''
    switch (p.type) {
      case 'text':
      case 'reasoning':
        return [
          {
            role: p.type === 'reasoning' ? by + ', reasoning' : by,
            kind: 'text',
            text: textOf(p.content ?? p.text)
          }
        ]
      case 'tool_call':
        return [{ role: by, kind: 'call', name: textOf(p.name), id, text: textOf(p.arguments) }]
      case 'tool_call_response':
        return [{ role: by, kind: 'result', id, text: textOf(p.response ?? p.result) }]
    }
    return [{ role: by, kind: 'other', text: textOf(p) }]
  })
  if (!list.length && m.content !== undefined)
    said.push({
      role: by,
      kind: by === 'tool' ? 'result' : 'text',
      id: textOf(m.id ?? m.tool_call_id),
      text: textOf(m.content)
    })
  if (Array.isArray(m.tool_calls))
    for (const c of m.tool_calls) {
      const f = isObject(c) && isObject(c.function) ? c.function : c
      if (isObject(f))
        said.push({
          role: by,
          kind: 'call',
          name: textOf(f.name),
          id: isObject(c) ? textOf(c.id) : '',
          text: textOf(f.arguments)
        })
    }
  if (isObject(m.message)) said.push(...parts(m.message, by))
  return said.filter(s => s.text || s.kind === 'call')
}

const many = (v: unknown) => (Array.isArray(v) ? v : v === undefined ? [] : [v])

// conversation returns the steps of turns, which must be in chronological order. It omits messages that are also in
// earlier turns, for example in the span above, or in the history that each request repeats.
export function conversation(turns: Turn[]): Step[] {
  const known = new Set<string>(),
    steps = new Map<number, Step>()
  const step = (t: Turn): Step => {
    let s = steps.get(t.span)
    if (!s) {
      s = {
        row: t.span,
        name: t.role === 'span' ? t.name : '',
        model: '',
        tokens: ['', ''],
        finish: '',
        took: t.took_nano,
        failed: t.failed,
        said: []
      }
      steps.set(t.span, s)
    }
    return s
  }
  const say = (s: Step, list: Said[]) => {
    for (const x of list) {
      const key = JSON.stringify(
        x.kind === 'result' && x.id ? [x.kind, x.id, x.text] : [x.role, x.kind, x.id ?? '', x.name ?? '', x.text]
      )
      if (!known.has(key)) {
        known.add(key)
        s.said.push(x)
      }
    }
  }
  for (const t of turns) {
    const s = step(t),
      value = (name: string) => t.attributes.find(a => a.name === 'gen_ai.' + name)?.value ?? ''
    if (t.role === 'span') {
      s.name = t.name
      s.took = t.took_nano
      s.failed = t.failed
    }
    s.model ||= value('response.model') || value('request.model')
    s.tokens = [s.tokens[0] || value('usage.input_tokens'), s.tokens[1] || value('usage.output_tokens')]
    s.finish ||= value('response.finish_reasons').replace(/[[\]"]/g, '')
    for (const [name, role] of [
      ['system_instructions', 'system'],
      ['input.messages', 'user'],
      ['prompt', 'user'],
      ['output.messages', 'assistant'],
      ['completion', 'assistant']
    ] as const) {
      const text = value(name)
      if (text) for (const m of many(json(text) ?? text)) say(s, parts(m, role))
    }
    for (const [what, role, kind] of [
      ['arguments', 'assistant', 'call'],
      ['result', 'tool', 'result']
    ] as const) {
      const text = value('tool.call.' + what)
      if (text)
        say(s, [{ role, kind, name: value('tool.name'), id: value('tool.call.id'), text: textOf(json(text) ?? text) }])
    }
    const event = /^gen_ai\.(system|user|assistant|tool)\.message$|^gen_ai\.(choice)$/.exec(t.name)
    if (event)
      say(
        s,
        parts(
          json(t.body) ?? json(value('event.content')) ?? (t.body || value('event.content')),
          event[1] ?? 'assistant'
        )
      )
  }
  return [...steps.values()]
}
