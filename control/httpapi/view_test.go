package httpapi

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func TestHandlerIndex(t *testing.T) {
	r := newRig(t, control.TraceConfig{Name: "any", On: []control.On{{Trigger: control.TriggerHTTP}, {Trigger: control.TriggerLog, Key: "<b>*"}}},
		control.TraceConfig{Name: "deep", Mode: control.ModeStream, On: []control.On{
			{Trigger: control.TriggerHTTP}, {Trigger: control.TriggerSpan, LongerThan: time.Second, Count: 3, Within: time.Minute},
		}})
	for i := range 1005 {
		r.put(t, day.Add(time.Duration(i)*time.Second), i%3, i%2 == 0)
	}
	h := New(r.Control, nil)
	started := answerOf(t, ask(h, "POST", "/start?config=deep"))
	w := ask(h, "GET", "/")
	var v struct {
		Config *struct {
			ID     string
			Traces []struct {
				Name, Mode string
				On         []map[string]any
			}
		}
		Stats   control.Stats
		Running []runningView
		Files   []fileView
		Total   int `json:"files_total"`
	}
	must(t, json.Unmarshal(w.Body.Bytes(), &v))
	if w.Code != 200 || v.Config.ID != "prod" || v.Stats.Verdicts[control.TriggerHTTP][control.VerdictStarted] != 1 || v.Total != 1005 || len(v.Files) != 1000 {
		t.Errorf("%d, config %+v, stats %+v, %d files of %d", w.Code, v.Config, v.Stats, len(v.Files), v.Total)
	}
	first, last := v.Files[0], v.Files[999]
	if first.Time != day.Add(1004*time.Second) || !first.Manual || first.Size != 2 || first.Config != "c" || first.Href != "traces/"+first.Name ||
		last.Time != day.Add(5*time.Second) || last.Manual {
		t.Errorf("the files go from %+v to %+v", first, last)
	}
	if got, want := fmt.Sprint(v.Config.Traces), "[{any snapshot [map[trigger:http] map[key:<b>* level:INFO trigger:log]]} "+
		"{deep stream [map[trigger:http] map[count:3 longer_than:1s trigger:span within:1m0s]]}]"; got != want {
		t.Errorf("the traces are %s, want %s", got, want)
	}
	if got := v.Running[0]; got.ID != started["id"] || got.Config != "deep" || got.Href != "traces/"+got.ID+".et" || got.Error != "" {
		t.Errorf("what runs is %+v", got)
	}
	if text := w.Body.String(); !strings.Contains(text, "\n  \"stats\"") || strings.Contains(text, "<b>") {
		t.Errorf("the text is not indented, or has a tag: %.300s", text)
	}
	must(t, os.RemoveAll(r.Dir()))
	if w := ask(h, "GET", "/"); w.Code != 200 || answerOf(t, w)["error"] == "" {
		t.Errorf("a folder that is gone: %d %s", w.Code, w.Body)
	}
	expect.Equal(t, ask(h, "GET", "/traces/"+first.Name).Code, 404, "a trace without a folder")
	expect.Equal(t, ask(New(nil, nil), "GET", "/").Code, 404, "a nil control")
}

// TestHandlerShowsErrors stops a stream after its folder and the folder above were removed.
func TestHandlerShowsErrors(t *testing.T) {
	r := newRig(t)
	h := New(r.Control, nil)
	id, _ := answerOf(t, ask(h, "POST", "/start?config=deep"))["id"].(string)
	must(t, os.RemoveAll(filepath.Dir(r.Dir())))
	w := ask(h, "POST", "/stop/"+id)
	if v := answerOf(t, w); w.Code != 500 || v["verdict"] != "failed" || v["error"] == "" {
		t.Errorf("%d %v", w.Code, v)
	}
}
