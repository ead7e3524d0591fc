package lua_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query/lua"
)

var must = expect.Must

// open returns a file with the given entries.
func open(t testing.TB, version format.Version, entries []*format.TraceEntry) *format.File {
	return tracetest.New(t, version, format.IET, entries...).Open()
}

// types returns entries with attributes of all kinds.
func types() []*format.TraceEntry {
	at := func(name string, v format.Value) format.Attribute { return format.Attribute{Name: name, Value: v} }
	str, u64 := format.StringValue, format.U64Value
	const (
		tr = iota
		d
		i
		w
		e
	)
	levels := []format.Level{tr, d, i, w, e, i, i, i, i, w}
	attributes := [][]format.Attribute{
		{at("a", u64(0))},
		{at("a", u64(1)), at("f", format.FloatValue(1))},
		{at("a", format.I64Value(-1)), at("f", format.FloatValue(1.5))},
		{at("a", u64(1<<63+5)), at("f", format.FloatValue(math.NaN()))},
		{at("a", format.U128Value(1, 1)), at("f", format.FloatValue(math.Copysign(0, -1))), at("s", str("d3"))},
		{at("a", format.I128Value(-1, math.MaxUint64)), at("b", format.BoolValue(true)), at("s", str("d30"))},
		{at("a", str("1")), at("b", format.BoolValue(false)), at("s", str("D4"))},
		{at("a", format.BytesValue([]byte{1, 2})), at("s", str("e\n\"q\"\\"))},
		{at("a", format.FloatValue(1)), at("message", u64(7)), at("s", str("é"))},
		{at("a", u64(1<<53+1)), at("message", str("two\nlines"))},
	}
	all := []*format.TraceEntry{format.Root()}
	for n, list := range attributes {
		entry := &format.TraceEntry{Metadata: format.Metadata{Name: fmt.Sprint("row", n+1), Target: "types", Level: levels[n]}, Attributes: list}
		if n != 3 {
			entry.Metadata.File, entry.Metadata.ModulePath = format.Some("src/main.rs"), format.Some("types")
			entry.Metadata.Line = format.Some(uint32(10 + n))
		}
		switch n {
		case 0:
			entry.Message = format.Some("first")
		case 9:
			entry.Message = format.Some("two\nlines")
		}
		all = append(all, entry)
	}
	return all
}

// ranges formats ids as in 0-3,7. An empty list is "none".
func ranges(ids []uint32) string {
	var b strings.Builder
	for i := 0; i < len(ids); {
		k := i
		for k+1 < len(ids) && ids[k+1] == ids[k]+1 {
			k++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, ids[i])
		if k > i {
			fmt.Fprintf(&b, "-%d", ids[k])
		}
		i = k + 1
	}
	if b.Len() == 0 {
		return "none"
	}
	return b.String()
}

// TestComparisons compares the results of en_filter with those of ENTRACE's own evaluator.
func TestComparisons(t *testing.T) {
	for _, version := range []format.Version{format.V1, format.V2} {
		f := open(t, version, types())
		for _, x := range []struct{ args, want string }{
			{`"meta.level", "EQ", 5`, "none"},
			{`"meta.level", "EQ", 4`, "5"},
			{`"meta.level", "GT", 2`, "4-5,10"},
			{`"meta.level", "LT", 1`, "0-1"},
			{`"meta.level", "EQ", 256`, "0-1"},
			{`"meta.level", "EQ", -1`, "none"},
			{`"meta.level", "EQ", 2.5`, "none"},
			{`"meta.name", "GT", "row5"`, "6-9"},
			{`"meta.line", "LT", 12.5`, "1-2"},
			{`"meta.file", "LT", "z"`, "1-3,5-10"},
			{`"a", "EQ", 1`, "2,5"},
			{`"a", "LT", 0`, "3-4,6"},
			{`"a", "GT", 0`, "2,5,10"},
			{`"a", "EQ", "1"`, "7"},
			{`"a", "GT", 1.5`, "none"},
			{`"a", "EQ", 2^53+1`, "none"},
			{`"f", "EQ", 1`, "none"},
			{`"f", "EQ", 1.5`, "3"},
			{`"f", "GT", 1.25`, "3-4"},
			{`"f", "LT", 0.5`, "5"},
			{`"f", "EQ", -0.0`, "5"},
			{`"b", "EQ", true`, "6"},
			{`"b", "LT", true`, "7"},
			{`"b", "EQ", 1`, "none"},
			{`"s", "GT", "d3"`, "6,8-9"},
			{`"s", "LT", "e"`, "5-7"},
			{`"message", "EQ", 7`, "9"},
			{`"message", "GT", "a"`, "1,10"},
			{`"message", "EQ", "first"`, "1"},
			{`{target = "a", relation = "EQ", value = 1}`, "2,5"},
		} {
			script := "return en_filterset_materialize(en_filter(" + x.args + ", en_filterset_from_range(en_span_range())))"
			r, err := lua.Run(t.Context(), f, "test.lua", script, nil)
			if err != nil || !r.Any || ranges(r.IDs) != x.want {
				t.Errorf("version %d: %s: %v %+v, want %s", version, x.args, err, r, x.want)
			}
		}
	}
}

// TestFiltersets combines filtersets.
func TestFiltersets(t *testing.T) {
	f := open(t, format.V2, types())
	const define = `
		local range, list, union, intersect, invert = en_filterset_from_range, en_filterset_from_list, en_filterset_union, en_filterset_intersect, en_filterset_invert
		return `
	for _, x := range []struct{ script, want string }{
		{"union{range(0,1), range(4,5)}", "0-1,4-5"},
		{"intersect{range(0,3), range(2,5)}", "2-3"},
		{"invert(range(2,3), range(0,5))", "0-1,4-5"},
		{"intersect{range(0,9), invert(range(2,3), range(0,5))}", "0-1,4-5"},
		{"list{5,1,1,3}", "1,3,5"},
		{"list{'2', 3.9}", "2-3"},
		{"range(5,2)", "none"},
		{"range(10,13)", "10"},
		{"en_filterset_universe()", "0-10"},
		{"union{}", "none"},
		{"en_filterset_dnf({{{target='a',relation='EQ',value=1},{target='f',relation='EQ',value=1}},{{target='b',relation='EQ',value=true}}}, range(0,10))", "6"},
		{"en_filterset_dnf({{}}, range(1,3))", "1-3"},
		{"en_filterset_dnf({}, range(1,3))", "none"},
		{"en_filter('a','GT',0, en_filter('a','LT',2, range(0,10)))", "2,5"},
		{"{type='filterset', root=0, items={{type='prim_range', start=2, ['end']=4}}}", "2-4"},
		{"en_foreach(function(i) if i == 1 then return true elseif i == 2 then return 7 elseif i == 3 then return {9, '8', {}, 4.9} elseif i == 4 then return -1 end end)", "1,7,9,8,4"},
	} {
		r, err := lua.Run(t.Context(), f, "test.lua", define+x.script, nil)
		if err != nil {
			t.Errorf("%s: %v", x.script, err)
			continue
		}
		got := ranges(r.IDs)
		if strings.HasPrefix(x.script, "en_foreach") {
			got = strings.Trim(strings.ReplaceAll(fmt.Sprint(r.IDs), " ", ","), "[]")
		}
		expect.Equal(t, got, x.want, "%s", x.script)
	}
	// The arguments of the functions must not change.
	var out bytes.Buffer
	_, err := lua.Run(t.Context(), f, "test.lua", `
		local a = en_filterset_from_range(0, 3)
		local b = en_filter("a", "EQ", 1, a)
		local c = en_filterset_union{a, b}
		print(#a.items, a.root, #b.items, b.root, #c.items, c.root)`, &lua.Options{Output: &out})
	if err != nil || out.String() != "1\t0\t2\t1\t4\t3\n" {
		t.Errorf("%v %q", err, out.String())
	}
}

// TestFunctions checks the result of each function.
func TestFunctions(t *testing.T) {
	f := open(t, format.V2, types())
	var out bytes.Buffer
	_, err := lua.Run(t.Context(), f, "test.lua", `
		print(en_span_range())
		print(en_span_cnt(), en_child_cnt(0), #en_children(0), en_children(0)[10], en_child_cnt("1"))
		print(en_metadata_name(0), en_metadata_target(0), en_metadata_level(5), en_metadata_file(4), en_metadata_line(1.9), en_metadata_module_path(1))
		local m = en_metadata_table(4)
		print(m.name, m.level, m.file, m.line, m.target, m.module_path)
		print(en_attrs(6).b, en_attrs(8).a[2], en_attr_names(6)[3], en_attr_values(6)[1])
		print(en_attr_by_idx(2, 1))
		print(en_attr_name(2, 0), en_attr_value(2, 1), en_attr_by_name(2, "x"), en_attr_by_name(9, "message"), en_attr_by_name(1, "message"))
		print(en_attr_by_name(4, "a"), en_attr_by_name(5, "a"), en_attr_by_name(6, "a"), en_attr_by_name(10, "a"), en_attr_by_name(4, "f"))
		print(en_as_string(8))
		print(en_as_string(4))
		print(en_contains_anywhere(8, 'e\\n\\"q'), en_contains_anywhere(8, "Some(17)"), en_contains_anywhere(8, "nothing"))
		en_log("x") en_log(3) en_log(1.5) en_log(true) en_log(nil)
		print(en_pretty_table({1, {a = "x\n", [true] = 2.5, ["b c"] = false, [7] = {}}}))`, &lua.Options{Output: &out})
	must(t, err)
	const want = "0\t10\n" +
		"11\t10\t10\t10\t0\n" +
		"root\t\t5\tnil\t10\ttypes\n" +
		"row4\t4\tnil\tnil\ttypes\tnil\n" +
		"true\t2\ts\t-1\n" +
		"f\t1\n" +
		"a\t1\tnil\t7\tfirst\n" +
		"9.223372036854776e+18\t1.8446744073709552e+19\t-1\t9007199254740992\tNaN\n" +
		`Entry { meta: MetadataRefContainer { name: "row8", target: "types", level: Info, module_path: Some("types"), file: Some("src/main.rs"), line: Some(17) }, attrs: [("a", Bytes([1, 2])), ("s", String("e\n\"q\"\\"))], children: [] }` + "\n" +
		`Entry { meta: MetadataRefContainer { name: "row4", target: "types", level: Warn, module_path: None, file: None, line: None }, attrs: [("a", U64(9223372036854775813)), ("f", Float(NaN))], children: [] }` + "\n" +
		"true\ttrue\tfalse\n" +
		"Lua log: String(\"x\")\nLua log: Integer(3)\nLua log: Number(1.5)\nLua log: Boolean(true)\nLua log: Nil\n" +
		"{\n  1,\n  {\n    [true] = 2.5,\n    [7] = {},\n    a = \"x\\n\",\n    [\"b c\"] = false,\n  },\n}\n"
	expect.Equal(t, out.String(), want, "it prints")
	for script, want := range map[string]string{
		"en_children(11)":                       "Out of bounds. Tried to access index 11 from a collection of length 11",
		"en_attr_name(1, 7)":                    "Index out of bounds. Tried to access element 7 of a container of size",
		"en_metadata_name(-1)":                  "out of range",
		"en_metadata_name(0/0)":                 "out of range",
		"en_metadata_name(nil)":                 "expected number or string coercible to number",
		"en_attr_by_name(1, {})":                "expected string",
		`en_attr_by_name(1, "\255")`:            "UTF-8",
		"en_foreach(function() return 'x' end)": "Callback in en_foreach returned value of bad type",
		"en_foreach(function() return 1.5 end)": "Callback in en_foreach returned value of bad type",
		`en_filterset_materialize(en_filter("a", "GE", 1, en_filterset_universe()))`:      "Bad filter relation GE",
		`en_filterset_materialize(en_filter("a", "EQ", nil, en_filterset_universe()))`:    "Cannot convert value",
		`en_filterset_materialize(en_filter("meta.x", "EQ", 1, en_filterset_universe()))`: "Bad meta field x",
		`en_filterset_materialize({root=0, items={{type="union", srcs={0}}}})`:            "contains itself",
		`en_filterset_materialize({root=0, items={{type="what"}}})`:                       "unknown filterset item type",
		`en_filterset_materialize({root=3, items={}})`:                                    "no item 3",
		"en_filter_range(0, 1, {})":                                                       "attempt to call",
		"x =":                                                                             "test.lua",
		"error('mine')":                                                                   "test.lua:1: mine",
	} {
		var e *lua.ScriptError
		if _, err := lua.Run(t.Context(), f, "test.lua", script, nil); !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", script, err, want)
		}
	}
	if _, err := lua.Run(t.Context(), f, "test.lua", "return {'x'}", nil); err == nil || !strings.HasPrefix(err.Error(), "expected the script to return") {
		t.Errorf("of a list of texts: %v", err)
	}
	if r, err := lua.Run(t.Context(), f, "test.lua", "return 7", nil); err != nil || r.Any {
		t.Errorf("of a number: %v, %v", r, err)
	}
}

// TestLibrary checks the functions that replace those of gopher-lua.
func TestLibrary(t *testing.T) {
	f := open(t, format.V2, []*format.TraceEntry{format.Root()})
	for script, want := range map[string]string{
		`print(math.huge == 1/0, 1, 1.5, nil, "x")`:                                           "true\t1\t1.5\tnil\tx",
		`print(("ab"):rep(3) .. ("x"):rep(0) .. ("x"):rep(-1))`:                               "ababab",
		`print(string.format("%d %5d|%-5d|%05d %+d %x %c %%", 3, 42, 42, 42, 7, 255, 65))`:    "3    42|42   |00042 +7 ff A %",
		`print(string.format("%5.2f %s %10s|%.3s\n", 3.14159, 1.5, "r", "abcdef"))`:           " 3.14 1.5          r|abc\n",
		`print((pcall(string.format, "%999d", 1)), (pcall(string.format, "%[1]999d", 1)))`:    "false\tfalse",
		`print((pcall(string.format, "%.999f", 1)), (pcall(string.format, "%*d", 99999, 1)))`: "false\tfalse",
		`print(load("return 1+1")(), loadstring("return 2")(), (load("x =")))`:                "2\t2\tnil",
		`print(table.concat({1, "b"}, ","), ("a-b"):gsub("-", "+"))`:                          "1,b\ta+b\t1",
	} {
		var out bytes.Buffer
		if _, err := lua.Run(t.Context(), f, "test.lua", script, &lua.Options{Output: &out}); err != nil || out.String() != want+"\n" {
			t.Errorf("%s: %v\n%swant\n%s", script, err, out.String(), want)
		}
	}
	var out bytes.Buffer
	_, err := lua.Run(t.Context(), f, "test.lua", "print(io, os, package, debug, require, dofile, loadfile, module)", &lua.Options{Output: &out})
	if err != nil || strings.Trim(out.String(), "nil\t\n") != "" {
		t.Errorf("a script has %v %s", err, out.String())
	}
}

// TestThreads checks the parts of the file that threads get, and en_join.
func TestThreads(t *testing.T) {
	all := []*format.TraceEntry{format.Root()}
	for i := range 999 {
		all = append(all, tracetest.Entry(fmt.Sprint("n", i%7), "i", uint64(i)))
	}
	f := open(t, format.V1, all)
	for _, x := range []struct{ script, want string }{
		{"return en_filterset_universe()", "0-999"},
		{"return en_foreach(function(i) return i % 500 == 3 end)", "3,503"},
		{"local all = en_join(en_foreach(function(i) return i % 100 == 0 end)); table.sort(all); return all", "0,100,200,300,400,500,600,700,800,900"},
		{"local first = en_span_range(); if first > 0 then return {first} end; return en_join({7})", "7,250,500,750"},
		{"local all = en_join({en_span_range()}); return en_join(all)", "0,249-250,499-500,749-750,999"},
		{"local first = en_span_range(); local ok = pcall(en_join, {first}); return {ok and 1 or 2}", "1"},
	} {
		for range 20 {
			r, err := lua.Run(t.Context(), f, "test.lua", x.script, &lua.Options{Threads: 4})
			if err != nil || ranges(r.IDs) != x.want {
				t.Fatalf("%s: %v %v, want %s", x.script, err, r, x.want)
			}
		}
	}
	r, err := lua.Run(t.Context(), f, "test.lua", "return en_filterset_universe()", &lua.Options{Threads: 5000})
	if err != nil || ranges(r.IDs) != "0-999" {
		t.Errorf("in very many threads: %v %v", err, r)
	}
	if _, err := lua.Run(t.Context(), f, "test.lua", "if en_span_range() == 0 then error('one') end return en_join{}", &lua.Options{Threads: 4}); err == nil {
		t.Error("an error in one of the threads is none")
	}
}

// TestLimits checks that a script can neither run forever nor use all memory.
func TestLimits(t *testing.T) {
	f := open(t, format.V2, types())
	for _, script := range []string{
		"while true do end",
		"while true do pcall(function() while true do end end) end",
		"local function f() return f() end f()",
		"if en_span_range() == 0 then while true do end end en_join({})",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := lua.Run(ctx, f, "test.lua", script, &lua.Options{Threads: 2})
		cancel()
		expect.Is(t, err, context.DeadlineExceeded, "%s", script)
	}
	for _, script := range []string{
		"local s = 'x' while true do s = s .. s end",
		"local t = {} while true do t[#t+1] = {} end",
		"local t = {} while true do t[#t+1] = string.rep('x', 100000) end",
		"local t = {} for i = 1, 1e9 do t[i] = en_as_string(8) .. i end",
	} {
		expect.Is(t, expect.Err(lua.Run(t.Context(), f, "test.lua", script, &lua.Options{MaxMemory: 32 << 20})), lua.ErrMemory, "%s", script)
	}
	for _, script := range []string{
		"return string.rep('x', 1e15)",
		"local function f() return 1 + f() end return f()",
		"local t = {} for i = 1, 1e5 do t = {t} end return en_filterset_dnf(t, en_filterset_universe())",
		strings.Repeat("(", 500_000) + "1" + strings.Repeat(")", 500_000),
		strings.Repeat("-- comment\n", 100_000),
		strings.Repeat("(", 100_000),
	} {
		_, err := lua.Run(t.Context(), f, "test.lua", script, &lua.Options{MaxMemory: 256 << 20})
		if err == nil && !strings.HasPrefix(script, "(((") {
			t.Errorf("%.60s: there is no error", script)
		}
	}
	for _, script := range []string{
		"print(#en_pretty_table(setmetatable({}, {__index = error})))",
		"local t = {} for i = 1, 1e5 do t = {t} end print(#en_pretty_table(t))",
		"local t = {} t[1], t[2], t[3] = t, t, t print(#en_filterset_dnf({}, {root = 0, items = {t}}).items)",
	} {
		expect.Is(t, expect.Err(lua.Run(t.Context(), f, "test.lua", script, nil)), nil, "%s", script)
	}
}

// TestConcat checks the operator .. in functions, tables, conditions and loaded texts.
func TestConcat(t *testing.T) {
	f := open(t, format.V2, types())
	for script, want := range map[string]string{
		`print(1 .. "a" .. 2.5 .. "b")`:                                                                                                                           "1a2.5b\n",
		`local function f(...) return "x" .. ... end print(f("a", "b"), f("c") .. 1)`:                                                                             "xa\txc1\n",
		`local t = {["k" .. 1] = "v" .. 2, f = function(a) return a .. "!" end} print(t.k1, t.f("w"), #("a" .. "bc"))`:                                            "v2\tw!\t3\n",
		`local m = setmetatable({}, {__concat = function(a, b) return (a == 1 and "one" or "m") .. type(b) end}) print(1 .. m, m .. "x" .. "y", "a" .. (1 .. m))`: "onetable\tmstring\taonetable\n",
		`print(pcall(function() return {} .. "x" end))`:                                                                                                           "false\ttest.lua:1: cannot perform concat operation between table and string\n",
		`for i = 1, 2 do if "a" .. i == "a2" then print(loadstring("return 'l' .. 'd'")()) end end`:                                                               "ld\n",
		`local g = setfenv(function() return "e" .. "f" end, {}) print(g())`:                                                                                      "ef\n",
		`local s = "" repeat s = s .. "z" until s .. "z" == "zzz" while s .. "" ~= "zzz" do s = s .. "z" end print(s)`:                                            "zzz\n",
		"print(" + strings.Repeat("'a' .. ", 180) + "'b')":                                                                                                        strings.Repeat("a", 180) + "b\n",
	} {
		var out strings.Builder
		if _, err := lua.Run(t.Context(), f, "test.lua", script, &lua.Options{Output: &out}); err != nil || out.String() != want {
			t.Errorf("%s: %v, %q, want %q", script, err, out.String(), want)
		}
	}
}

// TestMemoryOfTextsIsBound checks that no function makes a text that is too large for the limit.
func TestMemoryOfTextsIsBound(t *testing.T) {
	f := open(t, format.V2, types())
	const most = 64 << 20
	for _, script := range []string{
		"local s = string.rep('x', 1000) while true do s = s .. s end",
		"local s = string.rep('x', 1000) while true do s = s .. s .. s .. s .. s end",
		"local s = string.rep('x', 1000) while true do s = loadstring('local s = ... return s .. s')(s) end",
		"local s, t = string.rep('x', 1000000), {} while true do t[#t+1] = s .. #t end",
		"local s = string.rep('x', 1000) while true do s = table.concat({s, s, s}) end",
		"local s = string.rep('x', 1000) while true do s = string.format(string.rep('%s', 20), s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s) end",
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		_, err := lua.Run(t.Context(), f, "test.lua", script, &lua.Options{MaxMemory: most})
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: there is no error", script)
		}
		// HeapSys is the memory that the heap has obtained from the system.
		if got := int64(after.HeapSys) - int64(before.HeapSys); got > most*3/2 {
			t.Errorf("%s: took %d MiB more, want no more than %d", script, got>>20, most*3/2>>20)
		}
	}
}

// TestSample compares results with those of ENTRACE's evaluator, on ENTRACE's own demo trace, which
// is a file of version 1.
func TestSample(t *testing.T) {
	dir := os.Getenv("ENTRACE_SAMPLES")
	if dir == "" {
		t.Skip("ENTRACE_SAMPLES is not set")
	}
	f := tracetest.OpenFile(t, filepath.Join(dir, "scoreman.iet"))
	var want strings.Builder
	want.WriteString("0,3-4")
	for i := 13; i <= 292; i += 9 {
		fmt.Fprint(&want, ",", i)
	}
	want.WriteString(",305-306")
	for i := 315; i <= 603; i += 9 {
		fmt.Fprint(&want, ",", i)
	}
	want.WriteString(",614,677")
	for script, want := range map[string]string{
		"return en_foreach(function(i) return en_child_cnt(i) > 2 end)":                  want.String(),
		`return en_foreach(function(i) return not en_contains_anywhere(i, "winit") end)`: "0-735",
	} {
		r, err := lua.Run(t.Context(), f, "test.lua", script, nil)
		if err != nil || ranges(r.IDs) != want {
			t.Errorf("%s: %v %s, want %s", script, err, ranges(r.IDs), want)
		}
	}
}

// TestDocs runs the script of docs/lua.md.
func TestDocs(t *testing.T) {
	b := tracetest.ReadFile(t, "../../docs/lua.md")
	_, script, _ := strings.Cut(string(b), "```lua\n")
	script, _, _ = strings.Cut(script, "```")
	span := func(id, name string) *format.TraceEntry {
		return tracetest.Entry(name, format.AttrSpanID, id)
	}
	end := func(parent uint32, id, status string) *format.TraceEntry {
		e := span(id, format.NameSpanEnd)
		e.Parent = parent
		e.Add(mapping.AttrStatusCode, format.StringValue(status))
		return e
	}
	f := open(t, format.V1, []*format.TraceEntry{
		format.Root(), span("a", "GET"), span("b", "GET"), span("c", "PUT"), end(1, "a", "ERROR"), end(3, "c", "OK"), end(2, "b", "ERROR"),
	})
	var out bytes.Buffer
	_, err := lua.Run(t.Context(), f, "docs.lua", script, &lua.Options{Output: &out})
	if err != nil || out.String() != "2\tGET\n" {
		t.Errorf("it prints %q, %v", out.String(), err)
	}
	for _, name := range []string{"en_span_range", "en_filterset_dnf", "en_attr_by_idx"} {
		if !strings.Contains(string(b), name) {
			t.Errorf("docs/lua.md does not have %s", name)
		}
	}
}
