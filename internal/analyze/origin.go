package analyze

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/read/columns"

	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// This file has the trigger of a recording, the deaths of its processes, and the differences from its baseline.

// A Trigger says why a flight recorder wrote a file.
type Trigger struct {
	Kind   string   `json:"kind"` // as in package control, such as watchdog
	Reason string   `json:"reason"`
	Row    view.Row `json:"request" null:"yes"` // the request that the trigger names
	Text   string   `json:"text"`               // what the request waits for, or why it failed
}

// asked has the triggers by which a person or a program asks for a file. With such a trigger, nothing need be wrong.
var asked = []string{"", "api", "http", "signal", "start", "exit"}

// triggerOf returns the trigger in the first entry of a flight recorder's file, and the start time of the request for
// which the recorder made the file, or else the time at which the file was requested. The trigger is nil if its kind is
// in asked, and the time is NoTime if neither is known.
func triggerOf(v *view.View, r view.Row) (t *Trigger, at Time) {
	e, err := v.NewReader().Entry(r)
	if err != nil {
		return nil, NoTime
	}
	text := func(name string) string {
		a, _ := e.Attribute(name)
		return strings.Clone(a.Text())
	}
	at = NoTime
	if start, timed := v.Start(r); timed {
		took, _ := e.Attribute("request.took_nano")
		n, _ := took.U64()
		at = Time(start) - Time(n)
	}
	t = &Trigger{Kind: text("trigger"), Reason: text("reason")}
	if span := SpanNamed(v, text("request.trace_id"), text("request.span_id")); span != 0 {
		t.Row = v.Outermost(span)
		if began, known := v.Start(t.Row); known {
			at = Time(began)
		}
	}
	if slices.Contains(asked, t.Kind) {
		return nil, at
	}
	if end := strings.LastIndex(t.Reason, " ("); end > 0 && strings.Contains(t.Reason[end:], "trace ") {
		t.Reason = t.Reason[:end] // the request and its trace id, which Row has
	}
	return t, at
}

// tell sets the text of a trigger: the innermost error of its request, or else where the request spends its time.
func (t *Trigger) tell(run query.Run) error {
	v := run.View
	if t.Row == 0 {
		return nil
	}
	texts, failed := newErrorTexts(v), view.Row(0)
	for r := range Subtree(v, t.Row) {
		if v.Flags(r).IsError() && run.Rows.Has(r) {
			failed = r
		}
	}
	if failed != 0 {
		text, err := texts.of(failed)
		if err == nil && !strings.Contains(t.Reason, text) {
			t.Text = v.Name(t.Row) + " failed: " + text
		}
		return err
	}
	if part, is := SlowestPart(v, t.Row); is && !v.Flags(t.Row).Open() && run.Rows.Has(part) {
		self, _ := v.SelfTime(part)
		t.Text = fmt.Sprintf("%s of it are in %s", took(int64(self)), v.Name(part))
	}
	return nil
}

// sentence returns the text of the trigger for a verdict.
func (t *Trigger) sentence() string {
	kind := t.Kind
	switch kind {
	case "watchdog":
		kind = "hang"
	case "span":
		kind = "slow"
	case "log":
		kind = "error"
	}
	said := kind + ": " + t.Reason
	if strings.HasPrefix(strings.ToLower(t.Reason), kind+":") {
		said = t.Reason
	}
	if t.Text != "" {
		said += "; " + t.Text
	}
	return said
}

// A Death is the end of a process that did not close its file.
type Death struct {
	File    int    `json:"-"` // its index in the view
	Service string `json:"service"`
	At      Time   `json:"at_unix_nano"` // its last row
	Reason  string `json:"reason"`       // the reason in the recording, such as a panic; "" if it is not known
	Missed  [2]int `json:"missed"`       // later requests of other services: the number that did not reach it, and the number that should have reached it
	Text    string `json:"text"`         // a sentence
}

// missedBy counts the requests of other services after a death that did not reach the dead service, although most
// requests of the same route had reached it before.
func (w *workload) missedBy(d *Death) {
	type reach struct{ of, reached int }
	before, called, other := make(map[*route]*reach), make(map[*request]bool), make(map[*request]bool)
	for _, c := range w.all {
		if c.service == d.Service {
			called[c.request] = true
		} else {
			other[c.request] = true
		}
	}
	for _, q := range w.requests {
		if other[q] && Time(q.start) < d.At {
			r := at(before, q.route)
			r.of++
			if called[q] {
				r.reached++
			}
		}
	}
	for _, q := range w.requests {
		if r := before[q.route]; r != nil && 2*r.reached > r.of && other[q] && Time(q.start) >= d.At {
			d.Missed[1]++
			if !called[q] {
				d.Missed[0]++
			}
		}
	}
}

// died sets the services, times and texts of the deaths of a view. It leaves out a death without a known reason if
// few requests, or less than half of the requests, missed the dead service.
func (w *workload) died(v *view.View, deaths []Death) []Death {
	several := len(v.Files()) > 1
	deaths = slices.DeleteFunc(slices.Clone(deaths), func(d Death) bool { return !several && d.Reason == "" })
	if len(deaths) == 0 {
		return nil
	}
	ends := make([]Death, len(v.Files())) // of each file, the service of its first span and the time of its last row
	for r := range v.Rows() {
		start, timed := v.Start(r)
		if !timed || v.Role(r) != view.RoleSpan && v.Role(r) != view.RoleLog {
			continue
		}
		file, _ := v.ID(r)
		took, _ := v.Duration(r)
		d := &ends[file]
		d.At, d.Service = max(d.At, Time(start)+Time(took)), cmp.Or(d.Service, v.Service(r))
	}
	var told []Death
	for _, d := range deaths {
		d.At, d.Service = ends[d.File].At, ends[d.File].Service
		if several {
			w.missedBy(&d)
		}
		missed := d.Missed[0] >= few && 2*d.Missed[0] >= d.Missed[1]
		if d.Reason == "" && !missed {
			continue
		}
		d.Text = name(d.Service) + " was killed"
		if d.Reason != "" {
			d.Text = name(d.Service) + " died: " + d.Reason
		}
		if missed {
			d.Text += fmt.Sprintf(" at %s; from then on %d of %d requests did not reach it", w.clock(d.At), d.Missed[0], d.Missed[1])
		}
		told = append(told, d)
	}
	slices.SortStableFunc(told, func(a, b Death) int { return cmp.Compare(a.At, b.At) })
	return told
}

// concerns makes causes unsure that have nothing to do with the trigger of a recording or the death of a process:
// their operation occurs neither in the request of the trigger nor in nearly all requests.
func (w *workload) concerns(x *Explanation, deaths []Death) {
	died := slices.ContainsFunc(deaths, func(d Death) bool { return d.Reason != "" })
	if w.trigger == nil && !died {
		return
	}
	names := make(map[string]int)
	add := func(v *view.View, root view.Row, n int) {
		seen := make(map[string]bool)
		for r := range Subtree(v, root) {
			if s := v.Name(r); !seen[s] {
				seen[s] = true
				names[s] += n
			}
		}
	}
	for _, q := range w.requests {
		add(q.view, q.row, 1)
	}
	if w.trigger != nil && w.trigger.Row != 0 {
		add(w.requests[0].view, w.trigger.Row, len(w.requests))
	}
	for i := range x.Causes {
		c := &x.Causes[i]
		caller, _, _ := strings.Cut(c.Operation, " → ")
		c.Sure = c.Sure && float64(names[caller]) >= nearlyAll*float64(len(w.requests))
	}
	x.order()
}

// A BaselineNote says how a baseline differs from a recording apart from its load.
type BaselineNote struct {
	Older int64  `json:"older_nano"` // the time from the last request of the baseline to the first request now
	Text  string `json:"text"`       // a sentence; "" if there is nothing to say
}

const oldBaseline = int64(3600e9) // the age from which on the note says that a baseline is old

// noteOf returns the differences between the baseline and the recording now: the age, and the versions and hosts of
// services.
func (w *workload) noteOf() (n BaselineNote, err error) {
	before, now := divided(w.requests)
	if len(before) == 0 || len(now) == 0 || before[0].view == now[0].view {
		return n, nil
	}
	n.Older = now[0].start - before[len(before)-1].start
	var said []string
	if age := max(n.Older, before[0].start-now[len(now)-1].start); age > oldBaseline {
		said = append(said, fmt.Sprintf("%s away in time", took(age)))
	}
	for _, of := range []struct{ attribute, text string }{{"service.version", "of version"}, {"host.name", "of host"}} {
		a, err := resourceValues(before[0].view, of.attribute)
		if err != nil {
			return n, err
		}
		b, err := resourceValues(now[0].view, of.attribute)
		if err != nil {
			return n, err
		}
		for service, value := range a {
			if is := b[service]; is != "" && is != value {
				said = append(said, fmt.Sprintf("%s %s and not %s", of.text, value, is))
				break
			}
		}
	}
	if len(said) > 0 {
		n.Text = "the baseline is " + strings.Join(said, ", ")
	}
	return n, nil
}

// resourceValues returns an attribute of the resource of each service of a view.
func resourceValues(v *view.View, attribute string) (map[string]string, error) {
	values := make(map[string]string)
	for _, r := range columns.Of(v).Resources()[1:] {
		e, err := v.Entry(view.Row(r))
		if err != nil {
			return nil, err
		}
		a, _ := e.Attribute(attribute)
		service, _ := e.Attribute("service.name")
		if text := a.Text(); text != "" {
			values[strings.Clone(service.Text())] = strings.Clone(text)
		}
	}
	return values, nil
}
