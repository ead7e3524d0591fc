// Makes spans and log records with OpenTelemetry's SDK as the environment says, and writes what
// the SDK says of them to the file that the first argument names, a line of JSON each.
import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const require = createRequire(process.argv[3] + '/');
const { logs, trace, context, SeverityNumber, SpanKind, SpanStatusCode } = require('@opentelemetry/api');
const { NodeSDK } = require('@opentelemetry/sdk-node');

const sdk = new NodeSDK({});
sdk.start();
const made = [];
const tracer = trace.getTracer('conformance', '1.2');
const logger = logs.getLogger('conformance');
for (let i = 0; i < 50; i++) {
  tracer.startActiveSpan('outer', { kind: SpanKind.SERVER, attributes: { i, half: i + 0.5, odd: i % 2 === 1, list: ['a', 'b'] } }, (outer) => {
    logger.emit({ severityNumber: SeverityNumber.WARN, severityText: 'WARN', body: `said ${i}`, context: context.active() });
    outer.addEvent('event', { n: i });
    const inner = tracer.startSpan('inner ü', { kind: SpanKind.CLIENT, links: [{ context: outer.spanContext(), attributes: { why: 'self' } }] });
    if (i === 7) inner.setStatus({ code: SpanStatusCode.ERROR, message: 'seven' });
    inner.end();
    outer.end();
    made.push(inner, outer);
  });
}
const nanos = ([s, n]) => (BigInt(s) * 1000000000n + BigInt(n)).toString();
writeFileSync(process.argv[2], made.map((s) => JSON.stringify({
  trace: s.spanContext().traceId, span: s.spanContext().spanId, parent: s.parentSpanContext?.spanId ?? s.parentSpanId ?? '',
  name: s.name, kind: s.kind + 1, start: nanos(s.startTime), end: nanos(s.endTime), status: s.status.code,
  attributes: s.attributes, events: s.events.map((e) => [e.name, nanos(e.time)]), links: s.links.length,
}) + '\n').join(''));
await sdk.shutdown();
