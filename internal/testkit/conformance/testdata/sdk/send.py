# Makes spans and log records with OpenTelemetry's SDK as the zero-code agent has set it up, and
# writes what the SDK says of them to the file that the first argument names, a line of JSON each.
import json
import logging
import sys

from opentelemetry import trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

kept = InMemorySpanExporter()
provider = trace.get_tracer_provider()
provider.add_span_processor(SimpleSpanProcessor(kept))
tracer = provider.get_tracer("conformance", "1.2")
log = logging.getLogger("conformance")
log.setLevel(logging.INFO)

for i in range(50):
    with tracer.start_as_current_span("outer", kind=trace.SpanKind.SERVER, attributes={"i": i, "half": i / 2, "odd": i % 2 == 1, "list": ["a", "b"]}) as outer:
        log.warning("said %d", i)
        outer.add_event("event", {"n": i})
        link = trace.Link(outer.get_span_context(), {"why": "self"})
        with tracer.start_as_current_span("inner ü", kind=trace.SpanKind.CLIENT, links=[link]) as inner:
            if i == 7:
                inner.set_status(trace.Status(trace.StatusCode.ERROR, "seven"))

with open(sys.argv[1], "w") as f:
    for s in kept.get_finished_spans():
        f.write(json.dumps({
            "trace": f"{s.context.trace_id:032x}", "span": f"{s.context.span_id:016x}", "parent": f"{s.parent.span_id:016x}" if s.parent else "",
            "name": s.name, "kind": s.kind.value + 1, "start": str(s.start_time), "end": str(s.end_time), "status": s.status.status_code.value,
            "attributes": {k: list(v) if isinstance(v, tuple) else v for k, v in s.attributes.items()}, "events": [[e.name, str(e.timestamp)] for e in s.events], "links": len(s.links),
        }) + "\n")
