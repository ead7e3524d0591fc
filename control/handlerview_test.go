package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestHandlerIndex(t *testing.T) {
	f := newHandlerFake(t)
	for i := range 1005 {
		folderPut(t, f.dir, folderDay.Add(time.Duration(i)*time.Second), i+1, i%3, i%2 == 0)
	}
	f.running = []startedTrace{&handlerTrace{id: "9", name: "deep", mode: ModeStream, path: f.dir.path("20261120T212712.021345Z-h-1-0001-deep.et"), err: errors.New("cpu profile: <in use>")}}
	w := handlerAsk(f.handler(nil), "GET", "/", "")
	var v struct {
		Config *struct {
			ID     string
			Traces []struct {
				Name, Mode string
				On         []map[string]any
			}
		}
		Stats   map[string]int
		Running []runningView
		Files   []fileView
		Total   int `json:"files_total"`
	}
	folderMust(t, json.Unmarshal(w.Body.Bytes(), &v))
	if w.Code != 200 || v.Config.ID != "prod" || v.Stats["started"] != 3 || v.Total != 1005 || len(v.Files) != 1000 {
		t.Errorf("%d, config %+v, stats %v, %d files of %d", w.Code, v.Config, v.Stats, len(v.Files), v.Total)
	}
	first, last := v.Files[0], v.Files[999]
	if first.Time != folderDay.Add(1004*time.Second) || !first.Manual || first.Size != 2 || first.Config != "c" || first.Href != "traces/"+first.Name ||
		last.Time != folderDay.Add(5*time.Second) || last.Manual {
		t.Errorf("the files go from %+v to %+v", first, last)
	}
	if got, want := fmt.Sprint(v.Config.Traces), "[{any snapshot [map[trigger:http] map[key:<b>* level:INFO trigger:log]]} "+
		"{deep stream [map[count:3 longer_than:1s trigger:span within:1m0s]]}]"; got != want {
		t.Errorf("the traces are %s, want %s", got, want)
	}
	if got := v.Running[0]; got.ID != "9" || got.Config != "deep" || got.Href != "traces/20261120T212712.021345Z-h-1-0001-deep.et" || got.Error == "" {
		t.Errorf("what runs is %+v", got)
	}
	if text := w.Body.String(); !strings.Contains(text, "\n  \"stats\"") || strings.Contains(text, "<b>") {
		t.Errorf("the text is not indented, or has a tag: %.300s", text)
	}
	h := newHandler(&handlerFake{}, func() *folder { return nil }, nil)
	w = handlerAsk(h, "GET", "/", "")
	if got := handlerAnswer(t, w); w.Code != 200 || got["config"] != nil || len(got["files"].([]any)) != 0 || len(got["running"].([]any)) != 0 {
		t.Errorf("with nothing there: %d %v", w.Code, got)
	}
	if w := handlerAsk(h, "GET", "/traces/"+first.Name, ""); w.Code != 404 {
		t.Errorf("a trace without a folder: %d", w.Code)
	}
	f.stats = math.NaN()
	if w := handlerAsk(f.handler(nil), "GET", "/", ""); w.Code != 500 || handlerAnswer(t, w)["error"] == "" {
		t.Errorf("stats that cannot be encoded: %d", w.Code)
	}
	f.stats = nil
	folderMust(t, os.RemoveAll(f.dir.dir))
	if w := handlerAsk(f.handler(nil), "GET", "/", ""); w.Code != 200 || handlerAnswer(t, w)["error"] == "" {
		t.Errorf("a folder that is gone: %d %s", w.Code, w.Body)
	}
}

func TestHandlerFile(t *testing.T) {
	f := newHandlerFake(t)
	name := folderPut(t, f.dir, folderDay, 1, 5, false)
	folderForeign(t, f.dir)
	folderMust(t, os.WriteFile(filepath.Join(filepath.Dir(f.dir.dir), "secret.et"), []byte("secret"), 0o600))
	folderMust(t, os.WriteFile(filepath.Join(filepath.Dir(f.dir.dir), name), []byte("secret"), 0o600))
	stream := strings.TrimSuffix(name, ".et") + ".iet"
	folderMust(t, os.WriteFile(f.dir.path(stream), []byte("secret"), 0o600))
	h := f.handler(nil)
	w := handlerAsk(h, "GET", "/traces/"+name, "")
	if w.Code != 200 || w.Body.Len() != 5 || w.Header().Get("Content-Type") != "application/octet-stream" ||
		w.Header().Get("Content-Disposition") != `attachment; filename="`+name+`"` || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%d, %d bytes, %v", w.Code, w.Body.Len(), w.Header())
	}
	if w := handlerAsk(h, "HEAD", "/traces/"+name, ""); w.Code != 200 || w.Body.Len() != 0 || w.Header().Get("Content-Length") != "5" {
		t.Errorf("HEAD: %d, %d bytes, %v", w.Code, w.Body.Len(), w.Header())
	}
	if w := handlerAsk(h, "GET", "/traces/"+name, "", handlerHeader("Range", "bytes=1-2")); w.Code != 206 || w.Body.Len() != 2 {
		t.Errorf("a range: %d, %d bytes", w.Code, w.Body.Len())
	}
	for _, s := range []string{
		"..", ".", "../secret.et", "..%2fsecret.et", "%2e%2e%2fsecret.et", "%2e%2e/secret.et", "..%5csecret.et", "....//secret.et",
		"%2fetc%2fpasswd", "/etc/passwd", "C:%5cx.et", "../" + name, "..%2f" + name, "." + "/" + name, name + "/", name + "%2f", name + "%00", name + "%20",
		name + "::$DATA", stream, "x.et", "notes.txt", "." + name, strings.ToLower(name),
		strings.Replace(name, "7-0001", "1-0002", 1), strings.Replace(name, "7-0001", "1-0004", 1), strings.Replace(name, "7-0001", "1-0006", 1),
	} {
		w := handlerAsk(h, "GET", "/traces/"+s, "")
		if w.Code != 404 || strings.Contains(w.Body.String(), "secret") || strings.Contains(w.Body.String(), f.dir.dir) {
			t.Errorf("GET traces/%s: %d %s, want 404", s, w.Code, w.Body)
		}
	}
}
