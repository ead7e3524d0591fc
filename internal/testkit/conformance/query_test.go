//go:build conformance

package conformance_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/convert/parquet"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// asked returns the view of a trace with about n entries. Many of its rows match the queries of the tests, and
// many nearly match them.
func asked(t testing.TB, n int) *view.View {
	t.Helper()
	r := rand.New(rand.NewPCG(14, 1))
	name := hosttest.Path(t, "asked.iet")
	out, err := os.Create(name)
	must(t, err)
	defer out.Close()
	w, err := format.NewWriter(out, format.V1, format.IET, nil)
	must(t, err)
	write := func(e *format.TraceEntry) uint32 {
		id, err := w.Write(e)
		must(t, err)
		return id
	}
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	attr := func(name string, v format.Value) format.Attribute { return format.Attribute{Name: name, Value: v} }
	text := format.StringValue
	write(format.Root())
	resources := []uint32{}
	for _, service := range []string{"shop", "stock"} {
		resources = append(resources, write(&format.TraceEntry{
			Message: format.Some(service), Metadata: format.Metadata{Name: format.NameResource, Level: format.LevelInfo},
			Attributes: []format.Attribute{attr("service.name", text(service)), attr("zone", text(service+"-1"))},
		}))
	}
	var spans []uint32
	for i := range n {
		e := &format.TraceEntry{Parent: resources[i%2], Metadata: format.Metadata{Level: format.LevelInfo, Target: pick("net/http", "sql")}}
		at := uint64(1e18) + uint64(r.IntN(1e9))
		e.Attributes = append(e.Attributes, attr(format.AttrTime, format.U64Value(at)))
		if r.IntN(3) > 0 {
			e.Attributes = append(e.Attributes, attr("user", text(pick("ada", "bob", "Ada", "eve"))))
		}
		if r.IntN(3) > 0 {
			e.Attributes = append(e.Attributes, attr("n", []format.Value{format.I64Value(int64(r.IntN(7)) - 3), format.FloatValue(float64(r.IntN(7)) - 3), format.BoolValue(true)}[r.IntN(3)]))
		}
		below := len(spans) > 0 && r.IntN(8) > 0
		if below {
			e.Parent = spans[len(spans)-1-r.IntN(min(len(spans), 9))]
		}
		if below && i%16 == 7 {
			e.Metadata.Name, e.Metadata.Level = pick(mapping.NameException, "retry"), format.LevelError
			e.Attributes = append(e.Attributes, attr(mapping.AttrEvent, format.BoolValue(true)))
			write(e)
			continue
		}
		if i%4 == 3 {
			e.Message, e.Metadata.Name = format.Some(pick("payment failed", "Payment done", "hello")), "event"
			e.Metadata.Level = []format.Level{format.LevelDebug, format.LevelInfo, format.LevelWarn, format.LevelError}[r.IntN(4)]
			write(e)
			continue
		}
		e.Metadata.Name = pick("GET /cart", "SELECT price", "pay")
		e.Attributes = append(e.Attributes, attr(format.AttrSpanID, text(fmt.Sprintf("%016x", i+1))), attr(mapping.AttrKind, text(pick("server", "client"))))
		if !below {
			e.Attributes = append(e.Attributes, attr(format.AttrTraceID, text(fmt.Sprintf("%032x", i+1))))
		}
		if r.IntN(9) > 0 {
			e.Attributes = append(e.Attributes, attr(format.AttrDuration, format.U64Value(uint64(r.IntN(1e6)))))
		}
		if r.IntN(4) == 0 {
			e.Attributes = append(e.Attributes, attr(mapping.AttrStatusCode, text("ERROR")))
			e.Metadata.Level = format.LevelError
		}
		spans = append(spans, write(e))
	}
	must(t, w.Flush())
	return tablesView(t, name)
}

// failedSQL selects the failed spans: a span failed if its status is error, or if its status is unset and it has
// an exception.
const failedSQL = `select id from entries where role = 'span' and (status = 'ERROR' or status = 'UNSET' and id in (select parent from entries where role = 'event' and name = 'exception'))`

// TestQueryDuckDB compares the results of queries with DuckDB's answers about a table of the same trace.
func TestQueryDuckDB(t *testing.T) {
	python, err := duckdb()
	must(t, err)
	const (
		number = `coalesce(attributes_int['n'], attributes_float['n'])`
		tree   = `with recursive up(id, a) as (select id, parent from entries union all select up.id, e.parent from up join entries e on e.id = up.a where e.parent is not null and e.id <> 0) `
		isRow  = `role in ('span', 'log', 'event')`
	)
	quantile := func(q string) string {
		return `list_sort(list(duration_nano))[cast(greatest(ceil(` + q + ` * count(duration_nano)), 1) as int)]`
	}
	tests := []struct{ query, sql string }{
		{`{}`, `select id from entries where ` + isRow},
		{`name = "GET /cart"`, `select id from entries where name = 'GET /cart' and ` + isRow},
		{`name = "pay" && duration > 500us`, `select id from entries where name = 'pay' and duration_nano > 500000`},
		{`duration <= 1000ns or kind = server`, `select id from entries where role = 'span' and (duration_nano <= 1000 or kind = 'server')`},
		{`status = error`, `select id from entries where status = 'ERROR'`},
		{`{ span:failed }`, failedSQL},
		{`level = error`, `select id from entries where (level = 'ERROR' or id in (` + failedSQL + `)) and ` + isRow},
		{`level >= warn`, `select id from entries where (level in ('WARN', 'ERROR') or id in (` + failedSQL + `)) and ` + isRow},
		{`{} | count() by(level)`, `select if(id in (` + failedSQL + `), 'ERROR', level), count(*) from entries where ` + isRow + ` group by all`},
		{`message contains "PAYMENT"`, `select id from entries where role = 'log' and message ilike '%payment%'`},
		{`message =~ ".*failed"`, `select id from entries where role = 'log' and message like '%failed'`},
		{`.user = "ada"`, `select id from entries where attributes_string['user'] = 'ada'`},
		{`.user != "ada"`, `select id from entries where attributes_string['user'] <> 'ada'`},
		{`.user in ("bob", "eve") .n > 0`, `select id from entries where attributes_string['user'] in ('bob', 'eve') and ` + number + ` > 0`},
		{`.user = nil`, `select id from entries where attributes_string['user'] is null and ` + isRow},
		{`.n = 2`, `select id from entries where ` + number + ` = 2`},
		{`.n < 1.5`, `select id from entries where ` + number + ` < 1.5`},
		{`.n = true`, `select id from entries where attributes_bool['n']`},
		{`.n + 1 = 2 * .n`, `select id from entries where ` + number + ` + 1 = 2 * ` + number},
		{`.zone = "shop-1"`, `select id from entries where service = 'shop' and ` + isRow},
		{`service = "stock" target = "sql"`, `select id from entries where service = 'stock' and target = 'sql' and ` + isRow},
		{`{ span:open }`, `select id from entries where role = 'span' and duration_nano is null`},
		{`{ parent.user = "ada" }`, `select c.id from entries c join entries p on c.parent = p.id where p.attributes_string['user'] = 'ada' and c.role <> 'resource'`},
		{`{ name = "pay" } > { status = error }`, `select c.id from entries c join entries p on c.parent = p.id where p.name = 'pay' and c.status = 'ERROR'`},
		{`{ status = error } < { name = "pay" }`, `select distinct p.id from entries c join entries p on c.parent = p.id where p.name = 'pay' and c.status = 'ERROR'`},
		{`{ name = "pay" && .user = "eve" } >> { level = error }`, tree + `select distinct e.id from up join entries e on e.id = up.id join entries p on p.id = up.a where p.name = 'pay' and p.attributes_string['user'] = 'eve' and (e.level = 'ERROR' or e.id in (` + failedSQL + `))`},
		{`{ level = error } << { name = "pay" && .user = "eve" }`, tree + `select distinct p.id from up join entries e on e.id = up.id join entries p on p.id = up.a where p.name = 'pay' and p.attributes_string['user'] = 'eve' and (e.level = 'ERROR' or e.id in (` + failedSQL + `))`},
		{`{ .user = "ada" } && { status = error }`, `select id from entries where (attributes_string['user'] = 'ada' or status = 'ERROR') and trace_id in (select trace_id from entries where attributes_string['user'] = 'ada' intersect select trace_id from entries where status = 'ERROR')`},
		{`!{ status = error }`, `select id from entries where ` + isRow + ` and (trace_id is null or trace_id not in (select trace_id from entries where status = 'ERROR'))`},
		{`{ kind = server } | count() > 3`, `select id from entries where kind = 'server' and trace_id in (select trace_id from entries where kind = 'server' group by trace_id having count(*) > 3)`},
		{`{} | count() by(name)`, `select name, count(*) from entries where ` + isRow + ` group by name`},
		{`{} | count() by(service, .user)`, `select service, coalesce(attributes_string['user'], 'nil'), count(*) from entries where ` + isRow + ` group by all`},
		{`{ kind != nil } | p50(duration) | p99(duration) | max(duration) by(name)`, `select name, ` + quantile("0.5") + `, ` + quantile("0.99") + `, max(duration_nano) from entries where role = 'span' group by name`},
		{`{} | quantile(duration, 0.1, 0.75) by(.user)`, `select coalesce(attributes_string['user'], 'nil'), ` + quantile("0.1") + `, ` + quantile("0.75") + ` from entries where ` + isRow + ` group by all`},
		{`{} | sum(duration) | min(duration) by(kind, status)`, `select coalesce(kind, 'nil'), coalesce(lower(status), 'nil'), coalesce(cast(sum(duration_nano) as varchar), 'nil'), coalesce(cast(min(duration_nano) as varchar), 'nil') from entries where ` + isRow + ` group by all`},
		{`{} | values(.user)`, `select attributes_string['user'], count(*) from entries where attributes_string['user'] is not null group by all`},
	}
	v := asked(t, 6000)
	table := hosttest.Path(t, "asked.parquet")
	var b bytes.Buffer
	must(t, parquet.Encode(t.Context(), &b, v))
	must(t, os.WriteFile(table, b.Bytes(), 0o600))
	var sqls []string
	for _, x := range tests {
		sqls = append(sqls, x.sql)
	}
	in, err := json.Marshal(sqls)
	must(t, err)
	cmd := exec.Command(python, "testdata/tables/ask.py", table)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, errs.Bytes())
	}
	var theirs [][][]string
	must(t, json.Unmarshal(out.Bytes(), &theirs))
	for i, x := range tests {
		q, err := query.Parse(x.query)
		if err != nil {
			t.Errorf("%s: %v", x.query, err)
			continue
		}
		res, err := q.Run(t.Context(), v, nil)
		if err != nil {
			t.Errorf("%s: %v", x.query, err)
			continue
		}
		var got, want []string
		if res.Table == nil {
			for _, r := range slices.Collect(res.Rows.All()) {
				_, id := v.ID(r)
				got = append(got, strconv.FormatUint(uint64(id), 10))
			}
		} else {
			for _, line := range res.Table.Lines {
				var cells []string
				for _, c := range line {
					switch x := c.Any().(type) {
					case time.Duration:
						cells = append(cells, strconv.FormatInt(int64(x), 10))
					case time.Time:
						cells = append(cells, strconv.FormatInt(x.UnixNano(), 10))
					default:
						cells = append(cells, c.String())
					}
				}
				got = append(got, strings.Join(cells, "|"))
			}
		}
		for _, line := range theirs[i] {
			want = append(want, strings.Join(line, "|"))
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d lines, DuckDB has %d\n%.200v\n%.200v", x.query, len(got), len(want), got, want)
		} else if len(got) == 0 || res.Table == nil && len(got) == 6000 && x.query != "{}" {
			t.Errorf("%s selects %d rows, which proves nothing", x.query, len(got))
		}
	}
	t.Logf("%d queries give what DuckDB gives", len(tests))
}

// BenchmarkQueryDuckDB compares queries on columns in memory with DuckDB on a Parquet file of the same rows. Both
// must count the same. The metric times-as-fast is the ratio.
func BenchmarkQueryDuckDB(b *testing.B) {
	python, err := duckdb()
	must(b, err)
	tests := []struct{ query, sql string }{
		{`name = "pay" && duration > 500us`, `select count(*) from entries where name = 'pay' and duration_nano > 500000`},
		{`level >= warn`, `select count(*) from entries where (level in ('WARN', 'ERROR') or id in (` + failedSQL + `)) and role in ('span', 'log', 'event')`},
		{`.user = "ada"`, `select count(*) from entries where attributes_string['user'] = 'ada'`},
		{`{ name = "pay" } > { status = error }`, `select count(*) from entries c join entries p on c.parent = p.id where p.name = 'pay' and c.status = 'ERROR'`},
		{`{ kind != nil } | p50(duration) | p95(duration) | p99(duration) by(name)`, `select sum(n), max(q) from (select count(*) n, quantile_disc(duration_nano, [0.5, 0.95, 0.99]) q from entries where role = 'span' group by name)`},
	}
	v := asked(b, 1_000_000)
	table := hosttest.Path(b, "asked.parquet")
	out, err := os.Create(table)
	must(b, err)
	must(b, errors.Join(parquet.Encode(b.Context(), out, v), out.Close()))
	var sqls []string
	for _, x := range tests {
		sqls = append(sqls, x.sql)
	}
	in, err := json.Marshal(sqls)
	must(b, err)
	cmd := exec.Command(python, "testdata/tables/ask.py", table, "times")
	var answer, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &answer, &errs
	if err := cmd.Run(); err != nil {
		b.Fatalf("%v: %s", err, errs.Bytes())
	}
	var theirs []struct {
		Count string
		Nanos float64
	}
	must(b, json.Unmarshal(answer.Bytes(), &theirs))
	for i, x := range tests {
		q, err := query.Parse(x.query)
		must(b, err)
		b.Run(x.query, func(b *testing.B) {
			r, err := q.Run(b.Context(), v, nil) // loads the columns
			if err != nil || strconv.Itoa(r.Rows.Len()) != theirs[i].Count {
				b.Fatalf("%v: %d rows, DuckDB has %s", err, r.Rows.Len(), theirs[i].Count)
			}
			for b.Loop() {
				if _, err := q.Run(b.Context(), v, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(theirs[i].Nanos/(float64(b.Elapsed())/float64(b.N)), "times-as-fast")
		})
	}
}
