package convert_test

import (
	"archive/zip"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// zipOf writes a ZIP with files.
func zipOf(t *testing.T, files ...[2]string) string {
	t.Helper()
	out, err := os.Create(hosttest.Path(t, "a.zip"))
	must(t, err)
	defer out.Close()
	w := zip.NewWriter(out)
	for _, x := range files {
		m, err := w.Create(x[0])
		must(t, err)
		_, err = io.WriteString(m, x[1])
		must(t, err)
	}
	must(t, w.Close())
	return out.Name()
}

// TestZip opens a ZIP with traces in several formats, and files that are no traces. No name in it may be a path.
func TestZip(t *testing.T) {
	const line = `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"01010101010101010101010101010101","spanId":"0202020202020202","name":"a"}]}]}]}`
	name := zipOf(
		t, [2]string{"traces/"}, [2]string{"traces/a.json", line}, [2]string{"../../../b.zipkin.json", `[{"traceId":"1","id":"1"}]`},
		[2]string{"c.iet", string(read(t, fixture(format.V1, format.IET)))}, [2]string{"README", "text"}, [2]string{"nothing"},
	)
	tr := opened(t, nil, name)
	var got []string
	for i := range tr.View().Files() {
		got = append(got, strings.TrimPrefix(tr.Name(i), name+"/")+" "+string(tr.Format(i)))
	}
	if want := []string{"traces/a.json otlp", "../../../b.zipkin.json zipkin", "c.iet iet"}; !slices.Equal(got, want) || len(tr.LeftOut()) != 2 {
		t.Errorf("it has %q and leaves out %q, want %q", got, tr.LeftOut(), want)
	}
	must(t, tr.EncodeFile(t.Context(), hosttest.Path(t, "a.et"), convert.ET, nil))

	for want, bad := range map[string]string{
		"no file in the ZIP is a trace": zipOf(t, [2]string{"README", "text"}),
		"more than 1000 files":          zipOf(t, slices.Repeat([][2]string{{"a.json", line}}, 1001)...),
		"256 times":                     zipOf(t, [2]string{"a.json", line + strings.Repeat(" ", 1<<20)}, [2]string{"b.json", line}),
	} {
		tr, err := convert.Open(t.Context(), []string{bad}, nil)
		expect.Says(t, err, want, "the error")
		if tr != nil {
			must(t, tr.Close())
		}
	}
}
