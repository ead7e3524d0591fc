package analyze

import (
	"cmp"
	"slices"

	"github.com/entrace-go/entrace/internal/read/stat"
	"github.com/entrace-go/entrace/view"
)

// inPeriod is the least share of the slow or failed calls that a period has, and the largest share of all calls.
const inPeriod = .8

// A Period is when most of the slow or failed calls of an operation began.
type Period struct {
	From  int64   `json:"from_unix_nano"`
	To    int64   `json:"to_unix_nano"`
	In    float64 `json:"in"`    // the share of the slow or failed calls that began in the period
	Share float64 `json:"share"` // the length of the period, as a share of the time in which all calls began

	lasts bool // few calls, or little time, come after the period
}

// PeriodOf returns the period in which most of the spans in the set "in" began. The set "same" has all spans of their
// operation. PeriodOf returns nil if the spans of "in" began at all times, or if chance may have put them into a
// period.
func PeriodOf(v *view.View, in, same view.Set[view.Row]) *Period {
	var all []begin
	for r := range same.All() {
		if at, timed := v.Start(r); timed {
			all = append(all, begin{at, in.Has(r)})
		}
	}
	return periodOf(all)
}

// A begin is the start of a call.
type begin struct {
	at int64
	in bool // the call is slow or failed
}

// periodOf sorts a list of calls and returns its period: the part with the largest excess of slow or failed calls
// over their average share. It returns nil as PeriodOf does.
func periodOf(all []begin) *Period {
	slices.SortFunc(all, func(a, b begin) int { return cmp.Compare(a.at, b.at) })
	bad := 0
	for _, c := range all {
		if c.in {
			bad++
		}
	}
	share := float64(bad) / float64(len(all))
	excess, most, from, first, end, in, within := 0.0, 0.0, 0, 0, 0, 0, 0
	for i, c := range all {
		if excess <= 0 {
			excess, from, in = 0, i, 0
		}
		excess -= share
		if c.in {
			excess++
			in++
		}
		if excess > most {
			most, first, end, within = excess, from, i+1, in
		}
	}
	if float64(within) < inPeriod*float64(bad) || float64(end-first) > inPeriod*float64(len(all)) ||
		stat.MoreOften(within, end-first, bad-within, len(all)-(end-first)) < need(len(all), 0) {
		return nil
	}
	p := &Period{From: all[first].at, To: all[end-1].at, In: float64(within) / float64(bad)}
	last := all[len(all)-1].at
	p.Share = float64(p.To-p.From) / float64(max(1, last-all[0].at))
	p.lasts = len(all)-end <= few || last-p.To <= (p.To-p.From)/10
	return p
}

// period returns when most of the slow or failed calls happened. The result from is NoTime if the calls happened at
// all times, and to is NoTime if they happened until the end.
func (g *group) period() (from, to Time) {
	var all []begin
	for in, calls := range g.sides {
		for _, c := range calls {
			all = append(all, begin{c.start, in})
		}
	}
	switch p := periodOf(all); {
	case p == nil:
		return NoTime, NoTime
	case p.lasts:
		return Time(p.From), NoTime
	default:
		return Time(p.From), Time(p.To)
	}
}
