package slogadapter_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

func TestSlogtestRun(t *testing.T) {
	for _, version := range []format.Version{format.V1, format.V2} {
		var rec *recorder.Recorder
		slogtest.Run(t, func(t *testing.T) slog.Handler {
			rec = newRecorder(t, &recorder.Options{Version: version})
			return slogadapter.New(rec, nil)
		}, func(t *testing.T) map[string]any {
			all := entries(t, rec)
			expect.MustEqual(t, len(all), 1, "entries")
			return nested(t, all[0])
		})
	}
}

// nested returns a log record in the form that package slogtest expects.
func nested(t testing.TB, e *format.TraceEntry) map[string]any {
	t.Helper()
	root := map[string]any{slog.LevelKey: e.Metadata.Level.String(), slog.MessageKey: e.Message.Value}
	if e.Metadata.File.Valid {
		root[slog.SourceKey] = e.Metadata.File.Value
	}
	for _, a := range e.Attributes {
		if a.Name == format.AttrTime {
			ns, _ := a.Value.I64()
			root[slog.TimeKey] = time.Unix(0, ns)
			continue
		}
		at := root
		path := strings.Split(a.Name, ".")
		for _, group := range path[:len(path)-1] {
			sub, ok := at[group].(map[string]any)
			if !ok {
				if at[group] != nil {
					t.Errorf("%q is a group and a value", group)
				}
				sub = make(map[string]any)
				at[group] = sub
			}
			at = sub
		}
		at[path[len(path)-1]] = plain(a.Value)
	}
	return root
}
