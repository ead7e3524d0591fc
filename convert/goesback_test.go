package convert_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// TestForeignFileGoesBack converts the samples of each format to an ET, and the ET to every format. The result must
// be the same as without the ET in between: an ET says how it ended, but this must not become content of another
// format.
func TestForeignFileGoesBack(t *testing.T) {
	var samples []string
	for _, pattern := range []string{
		"heph/testdata/*.htf", "heph/testdata/*.bin", "measureme/testdata/*.mm_profdata", "otlp/testdata/collector-*",
		"jaeger/testdata/buildx.json", "zipkin/testdata/otel.json", "stdouttrace/testdata/*.json",
	} {
		found, err := filepath.Glob(pattern)
		must(t, err)
		if len(found) == 0 {
			t.Errorf("there is no %s", pattern)
		}
		samples = append(samples, found...)
	}
	encoded := func(tr *convert.Trace, to convert.Format) string {
		var b bytes.Buffer
		if err := tr.Encode(t.Context(), &b, to, nil); err != nil {
			return err.Error() // such as gotrace for a sample without an execution trace
		}
		return b.String()
	}
	for _, name := range samples {
		direct := opened(t, nil, name)
		et := hosttest.Path(t, "a.et")
		must(t, direct.EncodeFile(t.Context(), et, convert.ET, nil))
		over := opened(t, nil, et)
		for _, f := range convert.Formats() {
			if _, own := f.Format.Own(); own || !f.Writes {
				continue
			}
			want := encoded(direct, f.Format)
			if got := encoded(over, f.Format); got != want {
				t.Errorf("%s becomes other %s over an ET: %d bytes, want %d", name, f.Format, len(got), len(want))
			}
		}
	}
}
