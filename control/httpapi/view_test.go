package httpapi

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
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
	started := answerOf(t, ask(h, "POST", "/start?config=deep", ""))
	w := ask(h, "GET", "/", "")
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
	if w := ask(h, "GET", "/", ""); w.Code != 200 || answerOf(t, w)["error"] == "" {
		t.Errorf("a folder that is gone: %d %s", w.Code, w.Body)
	}
	expect.Equal(t, ask(h, "GET", "/traces/"+first.Name, "").Code, 404, "a trace without a folder")
	expect.Equal(t, ask(New(nil, nil), "GET", "/", "").Code, 404, "a nil control")
}

// TestHandlerShowsErrors stops a stream after its folder and the folder above were removed.
func TestHandlerShowsErrors(t *testing.T) {
	r := newRig(t)
	h := New(r.Control, nil)
	id, _ := answerOf(t, ask(h, "POST", "/start?config=deep", ""))["id"].(string)
	must(t, os.RemoveAll(filepath.Dir(r.Dir())))
	w := ask(h, "POST", "/stop/"+id, "")
	if v := answerOf(t, w); w.Code != 500 || v["verdict"] != "failed" || v["error"] == "" {
		t.Errorf("%d %v", w.Code, v)
	}
}

func TestHandlerFile(t *testing.T) {
	f := newRig(t)
	name := f.put(t, day, 5, false)
	must(t, os.WriteFile(f.Dir()+"/x.et", []byte("secret"), 0o600))
	must(t, os.WriteFile(f.Dir()+"/notes.txt", []byte("secret"), 0o600))
	must(t, os.Mkdir(f.Dir()+"/"+strings.Replace(name, "7-0001", "1-0002", 1), 0o700))
	_ = os.Symlink("notes.txt", f.Dir()+"/"+strings.Replace(name, "7-0001", "1-0004", 1)) // if the system has links
	if mkfifo, err := exec.LookPath("mkfifo"); err == nil {
		must(t, exec.Command(mkfifo, f.Dir()+"/"+strings.Replace(name, "7-0001", "1-0006", 1)).Run())
	}
	must(t, os.WriteFile(filepath.Join(filepath.Dir(f.Dir()), "secret.et"), []byte("secret"), 0o600))
	must(t, os.WriteFile(filepath.Join(filepath.Dir(f.Dir()), name), []byte("secret"), 0o600))
	stream := strings.TrimSuffix(name, ".et") + ".iet"
	must(t, os.WriteFile(f.Dir()+"/"+stream, []byte("secret"), 0o600))
	h := New(f.Control, nil)
	w := ask(h, "GET", "/traces/"+name, "")
	if w.Code != 200 || w.Body.Len() != 5 || w.Header().Get("Content-Type") != "application/octet-stream" ||
		w.Header().Get("Content-Disposition") != `attachment; filename="`+name+`"` || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d, %d bytes, %v", w.Code, w.Body.Len(), w.Header())
	}
	if w := ask(h, "HEAD", "/traces/"+name, ""); w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Length") != "5" {
		t.Errorf("HEAD: %d, %d bytes, %v", w.Code, w.Body.Len(), w.Header())
	}
	if w := ask(h, "GET", "/traces/"+name, "", header("Range", "bytes=1-2")); w.Code != 206 || w.Body.Len() != 2 {
		t.Errorf("a range: %d, %d bytes", w.Code, w.Body.Len())
	}
	for _, s := range []string{
		"..", ".", "../secret.et", "..%2fsecret.et", "%2e%2e%2fsecret.et", "%2e%2e/secret.et", "..%5csecret.et", "....//secret.et",
		"%2fetc%2fpasswd", "/etc/passwd", "C:%5cx.et", "../" + name, "..%2f" + name, "." + "/" + name, name + "/", name + "%2f", name + "%00", name + "%20",
		name + "::$DATA", stream, "x.et", "notes.txt", "." + name, strings.ToLower(name),
		strings.Replace(name, "7-0001", "1-0002", 1), strings.Replace(name, "7-0001", "1-0004", 1), strings.Replace(name, "7-0001", "1-0006", 1),
	} {
		w := ask(h, "GET", "/traces/"+s, "")
		if w.Code != 404 || strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), f.Dir()) {
			t.Errorf("GET traces/%s: %d %s, want 404", s, w.Code, w.Body)
		}
	}
}
