package otlp_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// field returns a length-delimited field of protobuf.
func field(number protowire.Number, content ...[]byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), slices.Concat(content...))
}

// TestNotUTF8 decodes protobuf with texts that are not UTF-8.
func TestNotUTF8(t *testing.T) {
	bad := []byte("a\xff\xfeb")
	text := field(1, bad)
	attr := field(9, field(1, bad), field(2, text))
	list := field(9, field(1, []byte("list")), field(2, field(5, field(1, text), field(1, field(7, bad)))))
	sp := field(2, field(1, bytes.Repeat([]byte{1}, 16)), field(2, bytes.Repeat([]byte{2}, 8)), field(5, bad), attr, list)
	in := field(1, field(2, sp))
	got := string(encode(t, mustDecode(t, bytes.NewReader(in)), nil))
	want := `"name":"a��b","attributes":[{"key":"a��b","value":{"bytesValue":"Yf/+Yg=="}},` +
		`{"key":"list","value":{"arrayValue":{"values":[{"bytesValue":"Yf/+Yg=="},{"bytesValue":"Yf/+Yg=="}]}}}]`
	want = strings.ReplaceAll(want, `\ufffd`, "\ufffd")
	if !strings.Contains(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestNaNBits checks that the bits of a NaN do not change in protobuf, which can represent them.
func TestNaNBits(t *testing.T) {
	const bits = 0x7ff8_0000_dead_beef
	number := binary.LittleEndian.AppendUint64(protowire.AppendTag(nil, 4, protowire.Fixed64Type), bits)
	attr := field(9, field(1, []byte("n")), field(2, number))
	in := field(1, field(2, field(2, field(1, bytes.Repeat([]byte{1}, 16)), field(2, bytes.Repeat([]byte{2}, 8)), attr)))
	got := encode(t, mustDecode(t, bytes.NewReader(in)), &otlp.EncodeOptions{Protobuf: true})
	if !bytes.Contains(got, number) {
		t.Errorf("%x has lost %x", got, number)
	}
}

// TestEntries encodes entries that were not decoded from OTLP.
func TestEntries(t *testing.T) {
	name := hosttest.Path(t, "x.iet")
	out, err := os.Create(name)
	must(t, err)
	defer out.Close()
	w, err := format.NewWriter(out, 0, format.IET, nil)
	must(t, err)
	entries := []*format.TraceEntry{
		format.Root(),
		{
			Metadata: format.Metadata{Name: "live", Target: "scope"},
			Attributes: tracetest.Attributes(
				"trace_id", "0102030405060708090a0b0c0d0e0f10", "span_id", spanA,
				"time_unix_nano", uint64(1),
				"large", uint64(1<<63),
			),
		},
		{
			Parent: 1, Message: format.Some("hello"),
			Metadata:   format.Metadata{Name: "event cart.go:7", Target: "shop", Level: format.LevelWarn, File: format.Some("/src/cart.go"), Line: format.Some[uint32](7)},
			Attributes: tracetest.Attributes("time_unix_nano", uint64(2)),
		},
		tracetest.Below(1, tracetest.Entry("span end", "span_id", spanA, "duration_nano", uint64(9), "otel.status_code", "ERROR")),
		tracetest.Below(1, tracetest.Entry("of another program")),
	}
	for _, e := range entries {
		must(t, expect.Err(w.Write(e)))
	}
	must(t, w.Close())
	f := tracetest.OpenFile(t, name)
	v := tracetest.View(t, f)
	want := `{"resourceSpans":[{"resource":{},"scopeSpans":[{"scope":{"name":"scope"},"spans":[{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"aaaaaaaaaaaaaaaa",` +
		`"flags":257,"name":"live","kind":1,"startTimeUnixNano":"1","endTimeUnixNano":"10","attributes":[{"key":"large","value":{"stringValue":"9223372036854775808"}}],"status":{"code":2}}]}]}]}
{"resourceLogs":[{"resource":{},"scopeLogs":[{"scope":{"name":"shop"},"logRecords":[{"timeUnixNano":"2","observedTimeUnixNano":"2","severityNumber":13,"severityText":"WARN","body":{"stringValue":"hello"},` +
		`"attributes":[{"key":"code.file.path","value":{"stringValue":"/src/cart.go"}},{"key":"code.line.number","value":{"intValue":"7"}}],` +
		`"flags":1,"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"aaaaaaaaaaaaaaaa"}]}]}]}
`
	if got := string(encode(t, v, nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestResourceAttributesKeepOrder checks that version 1 keeps the order of attributes, and that resources which
// differ only in this order become one.
func TestResourceAttributesKeepOrder(t *testing.T) {
	const in = `{"resourceSpans":[` +
		`{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"a"}},{"key":"zzz","value":{"intValue":"1"}},{"key":"aaa","value":{"arrayValue":{"values":[{"intValue":"7"}]}}}]},"schemaUrl":"http://x/1",` +
		`"scopeSpans":[{"scope":{},"spans":[{"traceId":"00112233445566778899aabbccddeeff","spanId":"0011223344556677","name":"one"}]}]},` +
		`{"resource":{"attributes":[{"key":"aaa","value":{"arrayValue":{"values":[{"intValue":"7"}]}}},{"key":"zzz","value":{"intValue":"1"}},{"key":"service.name","value":{"stringValue":"a"}}]},"schemaUrl":"http://x/1",` +
		`"scopeSpans":[{"scope":{},"spans":[{"traceId":"00112233445566778899aabbccddeeff","spanId":"0011223344556678","name":"two"}]}]}]}`
	for version, want := range map[format.Version][]string{format.V1: {"service.name", "zzz", "aaa"}, format.V2: {"aaa", "service.name", "zzz"}} {
		v, err := decodeTo(t, strings.NewReader(in), version)
		must(t, err)
		var out struct {
			ResourceSpans []struct {
				Resource struct {
					Attributes []struct{ Key string }
				}
				ScopeSpans []struct{ Spans []struct{ Name string } }
			}
		}
		must(t, json.Unmarshal(encode(t, v, nil), &out))
		if len(out.ResourceSpans) != 1 || len(out.ResourceSpans[0].ScopeSpans[0].Spans) != 2 {
			t.Fatalf("version %d: %+v, want both spans below one resource", version, out)
		}
		var keys []string
		for _, a := range out.ResourceSpans[0].Resource.Attributes {
			keys = append(keys, a.Key)
		}
		expect.Slice(t, keys, want, "version %d: the attributes", version)
	}
}

// TestLogDefaults checks that log records do not change on the way to an ET and back, with and without the values
// that absent attributes mean.
func TestLogDefaults(t *testing.T) {
	const head, tail = `{"resourceLogs":[{"resource":{},"scopeLogs":[{"scope":{},"logRecords":[`, "]}]}]}\n"
	const ids = `,"traceId":"00112233445566778899aabbccddeeff","spanId":"0011223344556677"`
	for _, log := range []string{
		`{"timeUnixNano":"5","body":{"stringValue":"no time of observation, no flags, no severity"}` + ids + `}`,
		`{"timeUnixNano":"5","observedTimeUnixNano":"5","body":{"stringValue":"the same time"},"flags":1` + ids + `}`,
		`{"timeUnixNano":"5","observedTimeUnixNano":"6","body":{"stringValue":"another"},"flags":3` + ids + `}`,
		`{"observedTimeUnixNano":"6","severityNumber":9,"severityText":"INFO","body":{"stringValue":"no time"}}`,
		`{"severityNumber":9,"severityText":"INFO+3","body":{"stringValue":"a text that means another number"}}`,
		`{"severityNumber":12,"severityText":"INFO+3","body":{"stringValue":"a text that means this number"}}`,
		`{"severityNumber":4,"body":{"stringValue":"flags without a span"},"flags":1}`,
	} {
		for _, version := range tracetest.BothVersions {
			v, err := decodeTo(t, strings.NewReader(head+log+tail), version)
			must(t, err)
			compare(t, canonical(t, encode(t, v, nil)), canonical(t, []byte(head+log+tail)))
		}
	}
}

// TestSlogRecords checks the severity number, flags and observed time of slog records.
func TestSlogRecords(t *testing.T) {
	ref := format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{2}}
	for _, version := range tracetest.BothVersions {
		for _, flags := range []trace.TraceFlags{0, trace.FlagsSampled} {
			path := hosttest.Path(t, "app.et")
			rec := tracetest.CreateAt(t, path, &recorder.Options{Version: version})
			ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: ref.TraceID, SpanID: ref.SpanID, TraceFlags: flags}))
			h := slogadapter.New(rec, &slogadapter.Options{Level: slog.Level(-100)})
			words := slogadapter.New(rec, &slogadapter.Options{Level: slog.Level(-100), ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.LevelKey {
					a.Value = slog.StringValue("ERROR") // whatever the level was
				}
				return a
			}})
			var want []string
			for lv := slog.Level(-30); lv <= 30; lv++ {
				for range 3 { // several times, because a handler caches repeated attributes
					slog.New(h).Log(ctx, lv, "m", "k", 1)
					want = append(want, fmt.Sprintln(min(max(int(lv)+9, 1), 24), lv.String(), flags))
				}
			}
			slog.New(words).Info("m")
			want = append(want, fmt.Sprintln(9, "ERROR", "00"))
			must(t, rec.Close(t.Context()))
			f := tracetest.OpenFile(t, path)
			v := tracetest.View(t, f)
			var got []string
			for line := range bytes.Lines(encode(t, v, nil)) {
				var out struct {
					ResourceLogs []struct {
						ScopeLogs []struct {
							LogRecords []struct {
								SeverityNumber       int
								SeverityText         string
								Flags                trace.TraceFlags
								TimeUnixNano         string
								ObservedTimeUnixNano string
							}
						}
					}
				}
				must(t, json.Unmarshal(line, &out))
				for _, l := range out.ResourceLogs[0].ScopeLogs[0].LogRecords {
					got = append(got, fmt.Sprintln(l.SeverityNumber, l.SeverityText, l.Flags))
					if l.TimeUnixNano == "" || l.ObservedTimeUnixNano != l.TimeUnixNano {
						t.Errorf("observed at %q, recorded at %q", l.ObservedTimeUnixNano, l.TimeUnixNano)
					}
				}
			}
			expect.Slice(t, got, want, "version %d, flags %v", version, flags)
		}
	}
}

// TestSafeOnTerminal checks that all texts in OTLP JSON have their control characters escaped, because it may be
// printed on a terminal.
func TestSafeOnTerminal(t *testing.T) {
	const acts = "\u001b[31m \u009b \u007f \u202e \u2028"
	text, err := json.Marshal(acts)
	must(t, err)
	in := strings.ReplaceAll(`{"resourceSpans":[{"resource":{"attributes":[{"key":X,"value":{"stringValue":X}}]},"schemaUrl":X,"scopeSpans":[{"scope":{"name":X,"version":X},"schemaUrl":X,"spans":[`+
		`{"traceId":"00112233445566778899aabbccddeeff","spanId":"0011223344556677","name":X,"traceState":X,"status":{"message":X},"events":[{"name":X}],`+
		`"attributes":[{"key":X,"value":{"kvlistValue":{"values":[{"key":X,"value":{"arrayValue":{"values":[{"stringValue":X},{"bytesValue":"AA=="}]}}}]}}}]}]}]}]}
{"resourceLogs":[{"resource":{},"scopeLogs":[{"scope":{},"logRecords":[{"timeUnixNano":"1","severityText":X,"eventName":X,"body":{"arrayValue":{"values":[{"stringValue":X}]}}}]}]}]}
`, "X", string(text))
	v, err := decode(t, strings.NewReader(in))
	must(t, err)
	out := encode(t, v, nil)
	if strings.ContainsAny(string(out), acts[:1]+"\u009b\u007f\u202e\u2028") {
		t.Errorf("it writes %q", out)
	}
	compare(t, canonical(t, out), canonical(t, []byte(in)))
}
