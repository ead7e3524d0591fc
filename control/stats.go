package control

import (
	"maps"
	"strings"
	"sync"
	"time"
)

// Stats are statistics of a [Control].
type Stats struct {
	// Config is the id of the current configuration. Refused counts configurations that were not valid.
	Config  string `json:"config"`
	Refused uint64 `json:"configs_refused"`
	// Verdicts counts the requests by trigger and verdict.
	Verdicts map[Trigger]map[Verdict]uint64 `json:"verdicts"`
	// Kept counts finished traces. Unfinished counts traces that are still an IET because the ET could not
	// be made. Lost counts traces that could not be written. Unkept counts traces that keep_if did not
	// keep.
	Kept       uint64 `json:"traces_kept"`
	Unfinished uint64 `json:"traces_unfinished"`
	Lost       uint64 `json:"traces_lost"`
	Unkept     uint64 `json:"traces_not_kept"`
	// On lists the providers that are on. Off has the errors of the providers that have failed.
	On  []string          `json:"providers_on"`
	Off map[string]string `json:"providers_off,omitempty"`
	// Ring has statistics of the ring.
	Ring struct {
		Bytes   int64     `json:"bytes"` // in use
		Entries uint64    `json:"entries"`
		Evicted uint64    `json:"evicted"` // entries that newer entries have replaced
		Dropped uint64    `json:"dropped"`
		From    time.Time `json:"from"` // the ring has all entries since this time
		Open    int       `json:"open_spans"`
	} `json:"ring"`
}

// verdicts counts requests.
type verdicts struct {
	mu sync.Mutex

	n map[Trigger]map[Verdict]uint64
}

// maxTriggers is the maximum number of triggers that are counted, because a Request can have any text as its
// trigger.
const maxTriggers = 64

func (v *verdicts) count(trigger Trigger, what Verdict) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.n == nil {
		v.n = make(map[Trigger]map[Verdict]uint64)
	}
	m := v.n[trigger]
	if m == nil {
		if len(v.n) >= maxTriggers {
			trigger = "other"
			m = v.n[trigger]
		}
		if m == nil {
			m = make(map[Verdict]uint64)
			v.n[Trigger(strings.Clone(string(trigger)))] = m // trigger may be a part of a large string, so clone it
		}
	}
	m[what]++
}

func (v *verdicts) copy() map[Trigger]map[Verdict]uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make(map[Trigger]map[Verdict]uint64, len(v.n))
	for trigger, m := range v.n {
		out[trigger] = maps.Clone(m)
	}
	return out
}
