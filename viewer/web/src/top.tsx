// A first look at a trace that nobody knows yet.
import { useSignal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import { Line, Repeat, Top } from './source'
import * as s from './state'
import { period } from './strip'
import { count, day, duration, many, moment, plain, quoted } from './text'
import { useAnswer } from './why'

export function Overview() {
  const top = useSignal<Top | null>(null), failed = useSignal('')
  const now = () => `${s.meta.value!.generation} ${s.meta.value!.entries} ${s.windowText.value}`, known = now()
  const busy = useRef('') // what the request is about, '': there is none
  useEffect(() => {
    const ask = () => {
      if (busy.current) return
      const of = busy.current = now(), part = s.windowText.value
      s.src().top(part).then(t => { failed.value = ''; if (part === s.windowText.value) top.value = t }, x => { failed.value = x instanceof Error ? x.message : String(x) }).then(() => {
        busy.current = ''
        if (of !== now()) setTimeout(ask, part === s.windowText.value ? 500 : 0)
      })
    }
    ask()
  }, [known])
  const t = top.value, m = s.meta.value!
  const waits = useAnswer(t && (m.goroutines || m.static !== undefined) ? `${known} waits` : '', signal => s.src().waits(s.windowText.peek(), signal)).value // these take longer to find
  if (failed.value) return <div class="topv"><p class="none">The overview cannot be made: {plain(failed.value)}</p></div>
  if (!t) return <div class="topv"><p class="none">Looking through {count(m.entries)} entries…</p></div>
  const w = s.inside.value && m.static === undefined ? period() : null, first = w?.from ?? m.first_unix_nano, last = w?.to ?? m.last_unix_nano
  const find = (q: string) => { s.text.value = q; s.view.value = 'tree'; s.find().then(ok => { if (ok) s.next('next') }) }
  return <div class="topv">
    <h1>{plain(title())}</h1>
    <dl class="fxs">
      <Fact name="Spans" value={count(t.spans)} /><Fact name="Log records" value={count(t.logs)} />
      {m.timed && <Fact name="From" value={`${day(first)}, ${moment(first, 3)}`} />}{m.timed && <Fact name="Length" value={duration(last - first)} />}
      {m.states.length === 1 && <Fact name="State" value={plain(m.states[0]!.text)} wide />}
    </dl>
    {m.states.length > 1 && <ul class="states">{m.states.map((x, i) => <li class="el" title={plain(x.text)}><b>{plain(base(m.files[i]?.name ?? ''))}</b> {plain(x.text)}</li>)}</ul>}
    {m.clocks.length > 0 && <p class="clocks">{m.clocks.map(c => `The clock of ${plain(c.name)} seems ${c.late.startsWith('-') ? c.late.slice(1) + ' fast' : c.late.slice(1) + ' late'}`).join('. ')}. {m.clockCommand && <><code class="mono">{plain(m.clockCommand)}</code> <button class="btn s" onClick={() => s.copy(m.clockCommand)}>Copy the command</button></>}</p>}
    <div class="tg">
      <section class="tl3"><h2>Slowest spans</h2><Lines list={t.slowest} none="No span has ended." /></section>
      <section class="tl3"><h2><span class={t.errors ? 'err' : ''}>{many(t.errors, 'error', 'errors')}</span></h2>
        {t.error_patterns.length ? <ul>{t.error_patterns.map(p => <li><button title={plain(p.pattern)} onClick={() => s.goToRequest(p.first.row)}><span class="el">{plain(p.pattern)}</span><span class="n">{count(p.count)}×</span><span class="q">{p.role}</span></button></li>)}</ul> : <p class="none">Nothing failed.</p>}
        {t.errors > 0 && <button class="lk" onClick={() => find('{ span:failed || (level >= error && entry:role != event) }')}>Find all of them</button>}</section>
      <section class="tl3"><h2>{t.open_spans ? many(t.open_spans, 'span never ended', 'spans never ended') : 'Never ended'}</h2><Lines list={t.never_ended} none="Every span has ended." />
        {t.open_spans > t.never_ended.length && <button class="lk" onClick={() => find('{ span:open }')}>Find all of them</button>}</section>
      {waits && waits.length > 0 && <section class="tl3"><h2 title="As an execution trace tells, the longest first">What spans waited for</h2><ul>{waits.map(w => <li><button title={plain(w.text)} onClick={() => s.go(w.longest.row)}><span class="says">{plain(w.text)}</span><span class="n">{duration(w.time_nano)}</span></button></li>)}</ul></section>}
      {t.growth.length > 0 && <section class="tl3"><h2>It grows</h2>{t.growth.map(g => <p class="says">{g.of}: {g.first} → {g.last} in {duration(g.time_nano)}</p>)}</section>}
      {t.goroutines.length > 0 && <section class="tl3"><h2>Goroutines at {moment(t.goroutines_at_unix_nano!, 3)}</h2><ul>{t.goroutines.map(g => <li><button title={plain(g.stack)} onClick={() => s.go(g.row.row)}><span class="el">{plain(g.in) || '(unknown)'}</span><span class="n">{many(g.count, 'goroutine', 'goroutines')}</span><span class="q">{g.spans > 0 ? `for ${many(g.spans, 'span', 'spans')}, ${g.ended} of which ended` : ''}</span></button></li>)}</ul>
        {t.more_goroutines > 0 && <p class="q">{many(t.more_goroutines, 'goroutine', 'goroutines')} on other stacks</p>}</section>}
      <section class="tl3"><h2>Services</h2><ul>{t.services.map(({ service: name, spans, logs, errors }) => <li><button onClick={() => find(name ? `service = ${quoted(name)}` : '{ service = nil }')}>
        <span class="el"><i class="dot" style={s.hue(name)} /> {plain(name) || '(none)'}</span><span class="n">{many(spans, 'span', 'spans')}</span><span class="q">{many(logs, 'log record', 'log records')}{errors ? ', ' + many(errors, 'error', 'errors') : ''}</span></button></li>)}</ul></section>
      <section class="tl3"><h2>Most time of their own</h2>{t.self.lines.length ? <ul>{t.self.lines.map(l => { const at = (c: string) => l.values[t.self.columns.findIndex(x => x.name === c)], name = String(at('name')), service = String(at('service') ?? ''); return <li><button title={plain(name)} onClick={() => find(`{ entry:role = span && name = ${quoted(name)} && ${service ? `service = ${quoted(service)}` : 'service = nil'} }`)}>
        <span class="el">{plain(name)} {service && <span class="q">{plain(service)}</span>}</span><span class="n">{at('self') ? duration(BigInt(at('self')!)) : '-'}</span><span class="q">{many(Number(at('count')), 'span', 'spans')}{at('p95') ? ', duration p95 ' + duration(BigInt(at('p95')!)) : ''}</span></button></li> })}</ul> : <p class="none">No span has ended.</p>}</section>
      {t.repeats.length > 0 && <section class="tl3"><h2 title="Five spans of one name or more, directly below the same span">Done again and again</h2><ul>{t.repeats.map(r => <li><button title={plain(call(r))} onClick={() => s.go(r.most.row)}><span class="el mono">{plain(call(r))}</span><span class="n">{r.spans > 1 && 'up to '}{count(r.most_calls)}×</span>
        <span class="q el">below {plain(r.of)}{r.spans > 1 && `, in ${count(r.spans)} spans`}, {duration(r.time_nano)}{r.spans > 1 && ' in all'}</span></button></li>)}</ul></section>}
      <section class="tl3"><h2 title="No span began or ended, and nothing was logged">Longest times without a record</h2>{t.gaps.length ? <ul>{t.gaps.map(g => <li><button title={`after ${plain(g.before.name)}, ${g.after ? 'before ' + plain(g.after.name) : 'until the end'}`} onClick={() => s.go((g.after ?? g.before).row)}><span class="el">after {plain(g.before.name)}</span><span class="n">{duration(g.duration_nano)}</span><span class="q el">{moment(g.from_unix_nano!, 3)}{g.after ? ` before ${plain(g.after.name)}` : ' until the end'}</span></button></li>)}</ul> : <p class="none">There is none.</p>}</section>
    </div>
  </div>
}

const Fact = ({ name, value, wide = false }: { name: string; value: string; wide?: boolean }) => <div class={wide ? 'wide' : ''}><dt>{name}</dt><dd>{value}</dd></div>

function Lines({ list, none }: { list: Line[]; none: string }) {
  if (!list.length) return <p class="none">{none}</p>
  return <ul>{list.map(l => <li><button title={plain(l.name)} onClick={() => s.goToRequest(l.row)}><span class="el">{plain(l.name)}</span><span class="n">{l.duration_nano !== null ? (l.open ? '≥ ' : '') + duration(l.duration_nano) : ''}</span>
    <span class="q">{l.in && <b>in {plain(l.in)} </b>}{plain(l.service)}{l.of && ` in ${plain(l.of)}`}{l.start_unix_nano !== null ? ' ' + moment(l.start_unix_nano, 3) : ''}</span></button></li>)}</ul>
}

// call is a repeated call: its text, behind its name unless it begins with that.
const call = (r: Repeat) => r.text.startsWith(r.name) ? r.text : `${r.name} ${r.text}`.trim()

const base = (name: string) => name.slice(name.lastIndexOf('/') + 1)

export function title(): string {
  const files = s.meta.value?.files ?? []
  return files.length > 1 ? `${base(files[0]!.name)} and ${files.length - 1} other ${files.length === 2 ? 'file' : 'files'}` : base(files[0]?.name ?? '')
}
