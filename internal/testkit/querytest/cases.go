// Package querytest has test cases for all packages that run queries: queries and the rows that
// they select.
package querytest

import (
	"fmt"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// A Case is a query on the trace of Entries, and its result.
type Case struct {
	Query string
	IDs   []uint32 // the ids of the selected entries
}

// Entries returns the entries of a test trace of a shop:
//
//	1 resource shop
//	  2 GET /cart of ada, trace a
//	    3 authorize
//	    4 SELECT price, which fails
//	      5 log: payment failed
//	      6 event: exception
//	  7 GET /cart of bob, trace b
//	    8 SELECT price
//	    9 log: retry 7
//	  10 render, trace c, whose parent is missing
//	    11 SELECT price, which fails
//	  12 hang, trace d, which has not ended
//	    14 log: waiting
//	  13 log: starting up
func Entries() []*format.TraceEntry {
	resource := tracetest.Resource("shop")
	set(resource, "service.name", "shop", "env", "prod")
	return []*format.TraceEntry{
		format.Root(),
		resource,
		span(1, "a", "2", "GET /cart", "server", 0, 100, "user", "ada", "http.response.status_code", uint64(200)),
		span(2, "a", "3", "authorize", "internal", 1, 5),
		failed(span(2, "a", "4", "SELECT price", "client", 10, 60, "db.system", "postgres"), "timeout"),
		log(4, format.LevelError, 20, "payment failed", "n", uint64(3)),
		event(4, 30, "exception", "exception.message", "boom"),
		span(1, "b", "7", "GET /cart", "server", 200, 20, "user", "bob", "http.response.status_code", 500),
		span(7, "b", "8", "SELECT price", "client", 205, 10, "db.system", "postgres"),
		log(7, format.LevelWarn, 210, "retry 7"),
		span(1, "c", "10", "render", "internal", 300, 30, format.AttrParentSpanID, "00000000000000ff"),
		failed(span(10, "c", "11", "SELECT price", "client", 305, 20), ""),
		span(1, "d", "12", "hang", "internal", 400, -1, "user", "Eve"),
		log(1, format.LevelInfo, 500, "starting up"),
		log(12, format.LevelInfo, 450, "waiting", "n", float64(3)),
	}
}

const millisecond = 1_000_000

func set(e *format.TraceEntry, pairs ...any) {
	e.Attributes = append(e.Attributes, tracetest.Attributes(pairs...)...)
}

func span(parent uint32, trace, id, name, kind string, start, took int64, pairs ...any) *format.TraceEntry {
	e := &format.TraceEntry{Parent: parent, Metadata: format.Metadata{Name: name, Level: format.LevelInfo}}
	set(e, format.AttrSpanID, fmt.Sprintf("%016s", id), format.AttrTraceID, fmt.Sprintf("%032s", trace),
		format.AttrTime, uint64(max(start*millisecond, 1)), mapping.AttrKind, kind)
	if took >= 0 {
		set(e, format.AttrDuration, uint64(took*millisecond))
	}
	set(e, pairs...)
	return e
}

func failed(e *format.TraceEntry, why string) *format.TraceEntry {
	e.Metadata.Level = format.LevelError
	set(e, mapping.AttrStatusCode, "ERROR")
	if why != "" {
		set(e, mapping.AttrStatusDescription, why)
	}
	return e
}

func log(parent uint32, level format.Level, at int64, text string, pairs ...any) *format.TraceEntry {
	e := &format.TraceEntry{Parent: parent, Message: format.Some(text), Metadata: format.Metadata{Name: "event", Level: level}}
	set(e, format.AttrTime, uint64(at*millisecond))
	set(e, pairs...)
	return e
}

func event(parent uint32, at int64, name string, pairs ...any) *format.TraceEntry {
	e := &format.TraceEntry{Parent: parent, Metadata: format.Metadata{Name: name, Level: format.LevelInfo}}
	set(e, format.AttrTime, uint64(at*millisecond), mapping.AttrEvent, true)
	set(e, pairs...)
	return e
}

// Lacks is a query with != on an attribute that some rows do not have.
const Lacks = `{ kind != nil && .user != "ada" }`

// Cases has queries with their results. The results were found by hand.
var Cases = []Case{
	{`name = "GET /cart"`, ids(2, 7)},
	{`{ name = "GET /cart" && duration > 50ms }`, ids(2)},
	{`level >= warn`, ids(4, 5, 9, 11)},
	{`{ status = error }`, ids(4, 11)},
	{`kind = log level >= warn`, ids(5, 9)},
	{`{ parent:kind = server && span:kind = "log" }`, ids(9)},
	{`kind = client .db.system = "postgres"`, ids(4, 8)},
	{`.user = "ada"`, ids(2)},
	{`.user =~ "a.*"`, ids(2)},
	{`.user =~ "d"`, ids()},
	{`payment`, ids(5)},
	{`PAYMENT failed`, ids(5)},
	{`"retry 7"`, ids(9)},
	{`/retry [0-9]/`, ids(9)},
	{`timeout`, ids(4)},
	{`eve`, ids(12)},
	{`.n = 3`, ids(5, 14)},
	{`.http.response.status_code >= 500`, ids(7)},
	{`.env = "prod" message = "starting up"`, ids(13)},
	{`resource.env = "prod" kind = server`, ids(2, 7)},
	{`parent.user = "ada"`, ids(3, 4)},
	{`{ span:open }`, ids(12)},
	{`message != nil`, ids(5, 9, 13, 14)},
	{`duration in (5ms, 10ms)`, ids(3, 8)},
	{`message contains "ing"`, ids(13, 14)},
	{`not (level < warn)`, ids(4, 5, 9, 11)},
	{`{ event:name = "exception" }`, ids(4, 6)},
	{`{ trace:id = "0000000000000000000000000000000b" }`, ids(7, 8, 9)},
	// A short id is the same number as one with leading zeros, also in order: it is not compared as a text.
	{`{ trace:id < "B" } | { kind = client }`, ids(4)},
	{`trace:id = "000000000000000000000000000000000B" kind = server`, ids(7)},
	{`{ kind = server } !> { trace:id >= "b" && kind != nil }`, ids(7, 10, 11, 12)},
	{`{ "0c" <= trace:id && message = nil }`, ids(10, 11, 12)},
	{`{ trace:id <= "0B" } > { span:parentID < "3" && kind != nil }`, ids(3, 4)},
	{`{ name = "GET /cart" } >> { level >= error }`, ids(4, 5)},
	{`{ name = "GET /cart" } > {}`, ids(3, 4, 8, 9)},
	{`{ name = "SELECT price" } < {}`, ids(2, 7, 10)},
	{`{ name = "authorize" } ~ {}`, ids(4)},
	{`{ kind = server } | count() > 0 | { .user = "bob" }`, ids(7)},
	{`{ status = error } | count() > 0`, ids(4, 11)},
	{`{ kind = client } | avg(duration) > 30ms`, ids(4)},
	{`({ name = "authorize" } | count() = 1) && ({ kind = server })`, ids(2, 3)},
	{`{} | sort(duration desc) | limit(2)`, ids(2, 4)},

	// A question that users ask: "Traces without such a span" (Tempo #2270 and #5123, Sentry #100183).
	{`!{ name = "authorize" }`, ids(7, 8, 9, 10, 11, 12, 13, 14)},
	{`!{ name = "authorize" } && { kind = server }`, ids(7, 8, 9)},
	// "!= drops spans that lack the attribute" (Tempo #2618). This query language does the same, but adds a hint.
	{Lacks, ids(7, 12)},
	{`{ kind != nil && (.user != "ada" || .user = nil) }`, ids(3, 4, 7, 8, 10, 11, 12)},
	// "!< returns nothing where it should" (Tempo #4804).
	{`{ name = "authorize" } !< { kind = server }`, ids(7)},
	{`{ kind = server } !> { name = "SELECT price" }`, ids(11)},
	{`{ status = error } !>> { level >= error }`, ids(4, 11)},
	// ">> fails without a root span" (Tempo #5270).
	{`{ name = "render" } >> { status = error }`, ids(11)},
	// "What is | against &&?" (Tempo #5279). Here, a pipeline in && must be in parentheses.
	{`({ status = error } | count() > 0) || ({ .user = "Eve" })`, ids(4, 11, 12)},
	// "Which side comes back?" (SigNoz #10025 and #8200). Here it is the right side, and with & both sides.
	{`{ kind = server } &>> { status = error }`, ids(2, 4)},
	// "An empty answer or an error for >>" (VictoriaTraces #186, gigapipe #986). Here the query has an answer.
	{`{ kind = server } >> { kind = client }`, ids(4, 8)},
	// "One event that is an exception and says boom" (Jaeger's RFC 0005). Both conditions must be true for the
	// same event.
	{`{ event:name = "exception" && event.exception.message = "boom" }`, ids(4, 6)},
	{`{ event:name = "exception" && event.n = 3 }`, ids()},
}

func ids(list ...uint32) []uint32 { return list }
