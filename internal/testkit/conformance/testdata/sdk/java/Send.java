// Makes spans and log records with OpenTelemetry's SDK as the environment says, and writes what
// the SDK says of them to the file that the first argument names, a line of JSON each.
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.logs.Severity;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.context.Context;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;
import io.opentelemetry.sdk.trace.ReadableSpan;
import io.opentelemetry.sdk.trace.ReadWriteSpan;
import io.opentelemetry.sdk.trace.SpanProcessor;
import io.opentelemetry.sdk.trace.data.SpanData;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

class Send {
  static class Kept implements SpanProcessor {
    final List<SpanData> spans = new ArrayList<>();
    public void onStart(Context parent, ReadWriteSpan span) {}
    public boolean isStartRequired() { return false; }
    public void onEnd(ReadableSpan span) { spans.add(span.toSpanData()); }
    public boolean isEndRequired() { return true; }
  }

  public static void main(String[] args) throws Exception {
    var kept = new Kept();
    var sdk = AutoConfiguredOpenTelemetrySdk.builder().addTracerProviderCustomizer((b, c) -> b.addSpanProcessor(kept)).build().getOpenTelemetrySdk();
    var tracer = sdk.getTracer("conformance", "1.2");
    var logger = sdk.getLogsBridge().get("conformance");
    for (int i = 0; i < 50; i++) {
      var outer = tracer.spanBuilder("outer").setSpanKind(SpanKind.SERVER).setAttribute("i", i).setAttribute("half", i / 2.0)
          .setAttribute("odd", i % 2 == 1).setAttribute(AttributeKey.stringArrayKey("list"), List.of("a", "b")).startSpan();
      try (var scope = outer.makeCurrent()) {
        logger.logRecordBuilder().setSeverity(Severity.WARN).setSeverityText("WARN").setBody("said " + i).emit();
        outer.addEvent("event", Attributes.of(AttributeKey.longKey("n"), (long) i));
        Span inner = tracer.spanBuilder("inner ü").setSpanKind(SpanKind.CLIENT)
            .addLink(outer.getSpanContext(), Attributes.of(AttributeKey.stringKey("why"), "self")).startSpan();
        if (i == 7) inner.setStatus(StatusCode.ERROR, "seven");
        inner.end();
      }
      outer.end();
    }
    Files.write(Path.of(args[0]), kept.spans.stream().map(Send::line).toList());
    sdk.close();
  }

  // line returns a span as JSON. No text here needs an escape.
  static String line(SpanData s) {
    var kinds = List.of(SpanKind.INTERNAL, SpanKind.SERVER, SpanKind.CLIENT, SpanKind.PRODUCER, SpanKind.CONSUMER);
    var statuses = List.of(StatusCode.UNSET, StatusCode.OK, StatusCode.ERROR);
    var attributes = new ArrayList<String>();
    s.getAttributes().forEach((k, v) -> attributes.add("\"" + k.getKey() + "\":" + (v instanceof List<?> l
        ? l.stream().map(x -> "\"" + x + "\"").collect(Collectors.joining(",", "[", "]")) : v.toString())));
    var events = s.getEvents().stream().map(e -> "[\"" + e.getName() + "\",\"" + e.getEpochNanos() + "\"]").collect(Collectors.joining(",", "[", "]"));
    return "{\"trace\":\"" + s.getTraceId() + "\",\"span\":\"" + s.getSpanId() + "\",\"parent\":\""
        + (s.getParentSpanContext().isValid() ? s.getParentSpanId() : "") + "\",\"name\":\"" + s.getName() + "\",\"kind\":" + (kinds.indexOf(s.getKind()) + 1)
        + ",\"start\":\"" + s.getStartEpochNanos() + "\",\"end\":\"" + s.getEndEpochNanos() + "\",\"status\":" + statuses.indexOf(s.getStatus().getStatusCode())
        + ",\"attributes\":{" + String.join(",", attributes) + "},\"events\":" + events + ",\"links\":" + s.getLinks().size() + "}";
  }
}
