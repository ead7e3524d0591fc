package execbatch_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/trace"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/core/execbatch"
	"github.com/entrace-go/entrace/internal/read/gotrace"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/redact"
)

// recorded returns an execution trace of this program. Some of its texts include secret.
func recorded(t *testing.T, secret string) string {
	t.Helper()
	var b bytes.Buffer
	if err := trace.Start(&b); err != nil {
		t.Skip("the test itself is traced:", err)
	}
	for i := range 50 {
		ctx, task := trace.NewTask(t.Context(), "GET /cart?access_token="+secret)
		trace.WithRegion(ctx, "Set-Cookie: sid="+secret+"; Path=/", func() { time.Sleep(100 * time.Microsecond) })
		trace.WithRegion(ctx, "Cookie: sid="+secret, func() {})
		trace.Log(ctx, "password", secret)
		trace.Log(ctx, "note", "X-Api-Key: "+secret)
		trace.Logf(ctx, "plain", "step %d of the checkout", i)
		task.End()
	}
	trace.Stop()
	return b.String()
}

// TestRedact replaces the secrets in an execution trace. Afterwards, go tool trace and our reader must still read
// everything else.
func TestRedact(t *testing.T) {
	const secret = "Zx81kqpLm20vB7"
	was := recorded(t, secret)
	if !execbatch.IsTrace(was) || strings.Count(was, secret) < 5 {
		t.Fatal("the trace does not have the secrets")
	}
	now, err := execbatch.Redact(redact.New(redact.Default(), nil), was)
	if err != nil || len(now) != len(was) || strings.Contains(now, secret) {
		t.Fatalf("%d bytes of %d, %v; the secret is there %d times", len(now), len(was), err, strings.Count(now, secret))
	}
	texts := regexp.MustCompile(`"[^"]*"`)
	events := func(s string) string {
		return texts.ReplaceAllString(string(tracetest.ParsedExecTrace(t, []byte(s))), `""`)
	}
	if events(now) != events(was) {
		t.Error("other events are left")
	}
	if parsed := string(tracetest.ParsedExecTrace(t, []byte(now))); !strings.Contains(parsed, "step 49 of the checkout") || !strings.Contains(parsed, "GET /cart?access_token=[redac") {
		t.Error("other texts are gone")
	}
	x, err := gotrace.Read(context.Background(), strings.NewReader(now), int64(len(now)))
	if err != nil || x.Damage != nil {
		t.Errorf("gotrace: %v, %v", err, x.Damage)
	}
	if again, err := execbatch.Redact(redact.New(redact.Default(), nil), now); err != nil || again != now {
		t.Errorf("a second time changes it: %v", err)
	}
}

// TestRedactKeepsTraces checks that Redact does not change traces without secrets. It uses a trace of each Go
// release.
func TestRedactKeepsTraces(t *testing.T) {
	names, err := filepath.Glob("../../read/gotrace/testdata/*.trace")
	if err != nil || len(names) < 4 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		b := tracetest.ReadFile(t, name)
		if now, err := execbatch.Redact(redact.New(redact.Default(), nil), string(b)); err != nil || now != string(b) {
			t.Errorf("%s: %v, changed: %t", name, err, now != string(b))
		}
	}
}

// FuzzRedact checks that Redact does not panic on damaged traces and does not change the size of a trace.
func FuzzRedact(f *testing.F) {
	b, err := os.ReadFile("../../read/gotrace/testdata/go1.26.trace")
	expect.Must(f, err)
	f.Add(b[:min(len(b), 5000)], 0)
	f.Add(slices.Concat([]byte("go 1.26 trace\x00\x00\x00"), []byte{1, 1, 1, 1, 4, 4, 5, 1, 1, 'x'}), 20)
	f.Fuzz(func(t *testing.T, b []byte, flip int) {
		if len(b) > 0 {
			b[max(flip, -flip, 0)%len(b)] ^= 1
		}
		now, err := execbatch.Redact(redact.New(redact.Default(), nil), string(b))
		if len(now) != len(b) || err != nil && now != string(b) {
			t.Error(fmt.Sprint(len(now), " bytes of ", len(b), " ", err))
		}
	})
}
