"""Makes two spans, and prints a record with the ids of each: as JSON, or in the format of OpenTelemetry's agent."""
import logging
import sys

from opentelemetry import trace

if sys.argv[1] == "json":
    from pythonjsonlogger.json import JsonFormatter
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter("%(asctime)s %(levelname)s %(name)s %(message)s %(otelTraceID)s %(otelSpanID)s"))
    logging.getLogger().handlers = [handler]
log = logging.getLogger("shop")
log.setLevel(logging.INFO)
tracer = trace.get_tracer("shop")
for name in ("GET /item", "POST /order"):
    with tracer.start_as_current_span(name, kind=trace.SpanKind.SERVER):
        log.info("in %s", name)
log.warning("outside")
