package loglines

import (
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/internal/otel"
)

// A Shape is a row of the table of shapes or wrappers.
type Shape struct {
	Name, Pattern string
	Example       string // lines that have the shape
	starts        bool   // the time of an access line is the time at which its request began
	steps         []step
}

// Shapes without a pattern.
var (
	shapeJSON   = &Shape{Name: "json"}
	shapeLogfmt = &Shape{Name: "logfmt"}
	shapeExport = &Shape{Name: "journald export"}
	shapeNone   = &Shape{Name: "none"}
)

// wrappers has the patterns of programs that carry the lines of other programs. The first row that matches counts. A
// row has a name, a pattern and an example.
var wrappers = shapesOf(`
cri
	{time9} {log.iostream} {partial1} {line}
	2026-11-29T07:50:01.123456789Z stderr F level=error msg="no card"
docker logs -t
	{time9} {line}
	2026-11-29T07:50:01.123456789Z level=error msg="no card"
kubectl --prefix
	[pod/{k8s.pod.name}/{k8s.container.name}] {line}
	[pod/shop-7d9/app] level=error msg="no card"
docker compose
	{serviceB} | {line}
	shop-1  | level=error msg="no card"
syslog, RFC 5424
	<{pri#}>1 {time} {host.name} {service} {process.pid} {syslog.msgid} [{syslog.data~}] {line}
	<11>1 2026-11-29T07:53:15.651Z web1 shop 4711 pay [a@1 b="c"] no card
syslog, RFC 5424
	<{pri#}>1 {time} {host.name} {service} {process.pid} {syslog.msgid} - {line}
	<11>1 2026-11-29T07:53:15.651Z web1 shop 4711 pay - no card
syslog
	(<{pri#}>){time} {host.name} {service}[{process.pid#}]: {line}
	<11>Nov 29 07:53:15 web1 shop[4711]: no card
syslog
	(<{pri#}>){timeB} {host.name} {service}: {line}
	Nov 29 07:53:15 web1 kernel: ERROR: no card
`)

// shapes has the forms of lines that programs print. The first row that matches counts. A star after the name says that
// the time of an access line is the time at which its request began.
var shapes = shapesOf(`
klog
	{level1}{time} {thread.id#} {code.file.path}:{code.line.number#}] {message=}
	E1129 07:53:15.651000    4711 pay.go:12] "no card" order=7
redis
	{process.pid#}:{redis.role} {time} {level1} {message}
	4711:M 29 Nov 2026 07:53:15.651 # no card
postgres
	{time} [{process.pid#}] ({db.user}@{db.namespace} ){level}: {message}
	2026-11-29 07:53:15.651 UTC [4711] app@shop ERROR:  no card
nginx error
	{time} [{level}] {process.pid#}#{thread.id#}: {message}
	2026/11/29 07:53:15 [error] 4711#4711: no card
apache error
	[{time}] [{logger}:{level}] [pid {process.pid~}] {message}
	[Sun Nov 29 07:53:15.651000 2026] [core:error] [pid 4711:tid 12] no card
haproxy *
	{client.address} [{time}] {haproxy.frontend} {haproxy.backend} {haproxy.queued}/{haproxy.waited}/{haproxy.connected}/{haproxy.answered}/{duration_ms#} {status#} {bytes} {haproxy.req} {haproxy.res} {haproxy.end} {haproxy.conns} {haproxy.queues} "{request~}"
	10.0.0.9:5120 [29/Nov/2026:07:53:15.651] web~ app/app1 0/0/1/29/30 502 174 - - SH-- 1/1/0/0/0 0/0 "GET /pay HTTP/1.1"
envoy *
	[{time}] "{request~}" {status#} {envoy.flags} {envoy.received#} {bytes} {duration_ms#} {envoy.upstream_ms} "{envoy.for~}" "{user_agent~}" "{envoy.request_id~}" "{server.address~}" "{envoy.upstream~}"
	[2026-11-29T07:53:15.651Z] "GET /pay HTTP/1.1" 502 UF 0 91 30 - "-" "curl/8" "b7e1" "shop" "10.0.0.9:80"
traefik *
	{client.address} {_} {user.name} [{time}] "{request~}" {status#} {bytes} "{referer~}" "{user_agent~}" {traefik.requests#} "{traefik.router~}" "{traefik.url~}" {duration}
	10.0.0.9 - - [29/Nov/2026:07:53:15 +0000] "GET /pay HTTP/1.1" 502 11 "-" "curl/8" 7 "shop@file" "http://10.0.0.8" 30ms
nginx access
	{client.address} {_} {user.name} [{time}] "{request~}" {status#} {bytes} "{referer~}" "{user_agent~}" {request_time%}( {nginx.rest})
	10.0.0.9 - - [29/Nov/2026:07:53:15 +0000] "GET /pay HTTP/1.1" 502 157 "-" "curl/8" 0.030
apache access *
	{client.address} {_} {user.name} [{time}] "{request~}" {status#} {bytes} "{referer~}" "{user_agent~}" {duration_us#}
	10.0.0.9 - - [29/Nov/2026:07:53:15 +0000] "GET /pay HTTP/1.1" 502 341 "-" "curl/8" 30412
gin
	[GIN] {time} | {status#} | {duration} | {client.address} | {method} "{path~}"
	[GIN] 2026/11/29 - 07:53:15 | 502 |   30.412ms |        10.0.0.9 | GET      "/pay"
fiber
	{time} | {status#} | {duration} | {client.address} | {method} | {path} | {error}
	07:53:15 | 502 |   30.412ms |        10.0.0.9 | GET     | /pay | no card
chi
	{time} ([{chi.request_id}] )"{request~}" from {client.address} - {status#} {_} in {duration}
	2026/11/29 07:53:15 [web1/x-000001] "GET http://shop/pay HTTP/1.1" from 10.0.0.9:5120 - 502 157B in 30.412ms
access
	{client.address} {_} {user.name} [{time}] "{request~}" {status#} {bytes}( "{referer~}" "{user_agent~}")( {http.rest})
	10.0.0.9 - - [29/Nov/2026:07:53:15 +0000] "GET /pay HTTP/1.1" 502 157 "-" "curl/8"
python
	{time} - {logger} - {level} - {message}
	2026-11-29 07:53:15,651 - shop - ERROR - no card
loguru
	{time} | {level} | {logger}:{code.function.name}:{code.line.number#} - {message}
	2026-11-29 07:53:15.651 | ERROR    | shop:pay:12 - no card
opentelemetry python
	{time} {level} [{logger}] [{code.file.path}:{code.line.number#}] [trace_id={trace_id} span_id={span_id} resource.service.name={service} trace_sampled={otelTraceSampled}] - {message}
	2026-11-29 07:53:15,651 ERROR [shop] [pay.py:12] [trace_id=0af7651916cd43dd8448eb211c80319c span_id=b7ad6b7169203331 resource.service.name=shop trace_sampled=True] - no card
spring
	{time} {level} {process.pid#} --- ([{spring.application~}] )[{thread.name~}] [{trace_id}-{span_id}] {logger} : {message}
	2026-11-29T07:53:15.651Z ERROR 4711 --- [shop] [nio-8080-exec-1] [0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331] c.e.shop.Pay : no card
spring
	{time} {level} {process.pid#} --- ([{spring.application~}] )[{thread.name~}] ([ ] ){logger} : {message}
	2026-11-29T07:53:15.651Z ERROR 4711 --- [shop] [           main] c.e.shop.Pay                             : no card
logback
	{time} [{thread.name~}] {level} {logger} -(-) {message}
	07:53:15.651 [main] ERROR shop.Pay -- no card
log4j
	{time} {level} [{thread.name~}] {logger}(:)( -) {message}
	2026-11-29 07:53:15,651 ERROR [main] shop.Pay: no card
java.util.logging
	{time} {logger} {code.function.name}\n{level}: {message}
	Nov 29, 2026 7:53:15 AM shop.Pay run\nSEVERE: no card
ruby
	{_1}, [{time} #{process.pid#}] {level} -- ({ruby.program}): {message}
	E, [2026-11-29T07:53:15.651000 #4711] ERROR -- : no card
mysql
	{time} {thread.id#} [{level}] [{mysql.code}] [{logger}] {message}
	2026-11-29T07:53:15.651000Z 12 [ERROR] [MY-010262] [Server] no card
env_logger
	[{time} {level} {logger}] {message}
	[2026-11-29T07:53:15Z ERROR shop::pay] no card
monolog
	[{time}] {logger}.{level}: {message}
	[2026-11-29T07:53:15.651000+00:00] shop.ERROR: no card {"order":7} []
serilog
	[{time} {level}] {message}
	[07:53:15 ERR] no card
pino-pretty
	[{time}] {level} \({process.pid#}\): {message}
	[07:53:15.651] ERROR (4711): no card
dotnet
	{level}: {logger}[{event.id#}]\n {message}
	fail: Shop.Pay[0]\n      no card
logrus
	{level}[{logrus.seconds#}] {message=}
	ERRO[0003] no card                                       order=7
structlog
	{time} [{level}( )] {message=}
	2026-11-29 07:53:15 [error    ] no card                        order=7
console
	{time} {level} {code.file.path}:{code.line.number#} (> ){message=}
	7:53AM ERR pay.go:12 > no card order=7
zap
	{time} {level} {logger} {code.file.path}:{code.line.number#} {message=}
	2026-11-29T07:53:15.651Z\tERROR\tshop\tpay.go:12\tno card\t{"order": 7}
time, level, logger
	{time} {level} {logger}: {message=}
	2026-11-29T07:53:15.651000Z ERROR shop::pay: no card order=7
time and level
	{time} (- ){level}(:)( -) {message=}
	2026-11-29 07:53:15,651 ERROR no card
time and level
	[{time}] [{level}] {message=}
	[2026-11-29 07:53:15] [ERROR] no card
time and level
	[{time}] {level}(:) {message=}
	[2026-11-29 07:53:15,651] ERROR no card
go
	{time} {code.file.path}:{code.line.number#}: {message}
	2026/11/29 07:53:15 pay.go:12: ERROR no card
time
	[{time}] {message}
	[2026-11-29 07:53:15] ERROR no card
time
	{time}(:) {message}
	2026/11/29 07:53:15 ERROR no card
level
	{level}:{logger}:{message}
	ERROR:shop:no card
`)

// A kind says what a field becomes: an attribute, or a part of the record such as its time or level.
type kind uint8

// The kinds of fields, in the order of kinds.
const (
	attribute kind = iota
	aTime
	aLevel
	aPriority
	aMessage
	aLine
	aLogger
	aService
	aCaller
	aPartial
	aTrace
	aTraceparent
	aSpan
	aMethod
	aPath
	aRequest
	aStatus
	aDuration
	aStack
)

var kinds = strings.Fields("attribute time level priority message line logger service caller partial trace traceparent span method path request status duration stack")

// Meanings returns the meanings that fields may have.
func Meanings() []string { return slices.Clone(kinds[1:]) }

// fieldTable has a row for each meaning: the meaning, and the names of the fields with this meaning, in lower case.
// Names of wrapped JSON and of its nested objects are joined with dots. The meaning is one of kinds, with the unit of
// a duration in nanoseconds, or else the name of an attribute.
const fieldTable = `
time time ts timestamp @timestamp t datetime asctime @t eventtime t.$date __realtime_timestamp record.time.timestamp instant.epochsecond starttime
level level lvl severity loglevel levelname log.level @l s record.level.name severity_text
priority pri priority
message msg message fields.message event short_message @m @mt record.message body
line line log _source.message textpayload message_raw
logger logger logger_name loggername log.logger sourcecontext category record.name
caller caller
service service service.name service_name app.name dd.service syslog_identifier serviceName container_name resource.labels.service_name
partial partial
trace trace_id traceid trace.id dd.trace_id otelTraceID logging.googleapis.com/trace trace x-b3-traceid b3.traceid xray_trace_id contextmap.trace_id mdc.trace_id mdc.traceid @tr
traceparent traceparent
span span_id spanid span.id dd.span_id otelSpanID logging.googleapis.com/spanid x-b3-spanid contextmap.span_id mdc.span_id mdc.spanid @sp
method method http.method http.request.method request.method req.method http_method
path path uri url url.path http.target http.path request.uri req.url request_uri url.original
request request
status status status_code statuscode http.status_code http.response.status_code response.status res.statuscode http_status response_code downstreamstatus
duration duration elapsed latency took event.duration http.duration
duration:1e9 request_time duration_s elapsed_s
duration:1e6 duration_ms responsetime elapsed_ms latency_ms took_ms response_time_ms elapsedms
duration:1e3 duration_us latency_us elapsed_us
duration:1 duration_ns latency_ns elapsed_ns
stack stacktrace stack_trace exception.stacktrace exc_info exception err.stack error.stack error.stack_trace thrown.extendedstacktrace @x record.exception full_message
code.file.path source.file code.filepath
code.line.number source.line code.lineno
code.function.name source.function
http.response.body.size bytes
user_agent.original user_agent
log.iostream stream
host.name hostname host
`

const levelTable = `
1 TRC TRCE VERBOSE SILLY FINEST FINER
5 DBG DEBU DBUG FINE .
9 INF LOG STATEMENT DETAIL HINT CONTEXT CONFIG SUCCESS HTTP SYSTEM NOTE - * I
13 WRN W #
17 ERRO EROR FAIL E
21 FTL FATA DPANIC PNC F CRI
`

// syslogLevels has the severity_number of syslog's levels 0 to 7.
var syslogLevels = [...]uint32{23, 22, 21, 17, 13, 10, 9, 5}

// frames has the beginnings of lines that belong to the previous record: frames of stacks, and lines between them.
var frames = []string{
	"\tat ", "    at ", "   at ", "Caused by: ", "\t... ", "\tSuppressed: ", "Traceback (most recent call last)", "  File \"",
	"goroutine ", "created by ", "\t/", "[signal ", "During handling of", "The above exception", "stack backtrace:", "note: run with",
	"   --- End of", "exit status ", "[originating from",
}

// A meaning says what all fields of one name become.
type meaning struct {
	raw  string // the name in the line
	name string // the name of the attribute
	kind kind
	unit float64 // the unit of a duration, in nanoseconds; 0: unknown
}

var meanings = meaningsOf(fieldTable)

func meaningsOf(table string) map[string]*meaning {
	all := make(map[string]*meaning)
	for row := range strings.Lines(table) {
		head, names, _ := strings.Cut(row, " ")
		head, unit, _ := strings.Cut(head, ":")
		var m meaning
		m.unit, _ = strconv.ParseFloat(unit, 64)
		if at := slices.Index(kinds, head); at > 0 {
			m.kind = kind(at)
		} else {
			m.name = head
		}
		for name := range strings.FieldsSeq(strings.ToLower(names)) {
			all[name] = &m
		}
	}
	return all
}

// shapesOf reads a table of rows.
func shapesOf(table string) (all []*Shape) {
	lines := strings.Split(table[1:], "\n")
	for i := 0; i+2 < len(lines); i += 3 {
		s := &Shape{Pattern: lines[i+1][1:], Example: strings.NewReplacer(`\n`, "\n", `\t`, "\t").Replace(lines[i+2][1:])}
		s.Name, s.starts = strings.CutSuffix(lines[i], " *")
		s.steps, _ = compile(s.Pattern)
		all = append(all, s)
	}
	return all
}

// levelNames has the severity_number of levels that only some loggers use.
var levelNames = levelsOf(levelTable)

func levelsOf(table string) map[string]uint32 {
	all := make(map[string]uint32)
	for row := range strings.Lines(table) {
		number, names, _ := strings.Cut(row, " ")
		for name := range strings.FieldsSeq(names) {
			all[name] = uint32(decimal(number))
		}
	}
	return all
}

// severityNamed returns the severity_number of the name of a level, perhaps with an offset, such as ERROR+2.
func severityNamed(name string) (uint32, bool) {
	base, offset, _ := strings.Cut(name, "+")
	n, ok := otel.SeverityNamed(base)
	if !ok && len(base) < 10 {
		n, ok = levelNames[strings.ToUpper(base)]
	}
	return min(n+uint32(decimal(offset)), 24), ok
}
