package httpapi

import (
	"cmp"
	"path/filepath"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/internal/traces"
)

type onView struct {
	Trigger    string `json:"trigger"`
	Key        string `json:"key,omitempty"`
	Level      string `json:"level,omitempty"`
	LongerThan string `json:"longer_than,omitempty"`
	Count      int    `json:"count,omitempty"`
	Within     string `json:"within,omitempty"`
}

type configView struct {
	ID     string         `json:"id"`
	Traces []configTraces `json:"traces"`
}

type configTraces struct {
	Name string       `json:"name"`
	Mode control.Mode `json:"mode"`
	On   []onView     `json:"on"`
}

type runningView struct {
	ID      string          `json:"id"`
	Config  string          `json:"config,omitempty"`
	Mode    control.Mode    `json:"mode,omitempty"`
	Time    time.Time       `json:"time,omitzero"`
	File    string          `json:"file,omitempty"`
	Href    string          `json:"href,omitempty"`    // the file of a stream exists only after its end
	Verdict control.Verdict `json:"verdict,omitempty"` // missing if it is VerdictStarted
	Error   string          `json:"error,omitempty"`
}

type fileView struct {
	traces.File

	Href string `json:"href"`
}

type indexView struct {
	Viewer  string         `json:"viewer,omitempty"`
	Config  *configView    `json:"config,omitempty"`
	Stats   control.Stats  `json:"stats"`
	Running []*runningView `json:"running"`
	Files   []fileView     `json:"files"`       // the newest files, newest first
	Total   int            `json:"files_total"` // number of all files
	Error   string         `json:"error,omitempty"`
}

func viewConfig(c *control.Config) *configView {
	duration := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	v := &configView{ID: c.ID, Traces: []configTraces{}}
	for i := range c.Traces {
		t := &c.Traces[i]
		tv := configTraces{Name: t.Name, Mode: cmp.Or(t.Mode, control.ModeSnapshot), On: []onView{}}
		for _, o := range t.On {
			ov := onView{Trigger: string(o.Trigger), Key: o.Key, LongerThan: duration(o.LongerThan), Count: o.Count, Within: duration(o.Within)}
			if o.Trigger == control.TriggerLog {
				ov.Level = o.Level.String()
			}
			tv.On = append(tv.On, ov)
		}
		v.Traces = append(v.Traces, tv)
	}
	return v
}

// traceView returns the view of a trace. base is the relative path from the path of the request to the
// mount point.
func traceView(t *control.Trace, base string) *runningView {
	v := &runningView{ID: t.ID, Config: t.Name, Mode: t.Mode, Time: t.StartTime}
	v.File = filepath.Base(t.Path())
	if verdict := t.Verdict(); verdict != control.VerdictStarted {
		v.Verdict = verdict
	}
	if filepath.Ext(v.File) == ".et" {
		v.Href = base + tracesDir + v.File
	}
	if err := t.Err(); err != nil {
		v.Error = err.Error()
	}
	return v
}
