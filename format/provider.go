package format

import "github.com/entrace-go/entrace/internal/record"

// A Provider is the number of what a record comes from, below [MaxProviders].
// Package control gives them names.
type Provider uint8

// The providers that records have by themselves.
const (
	ProviderSpans Provider = 0 // spans and what belongs to them
	ProviderLogs  Provider = 1 // log records
)

// MaxProviders is how many providers there are at most.
const MaxProviders = record.MaxProviders

// Providers is a set of providers, a bit each.
type Providers uint64

// Has reports whether p is in the set.
func (s Providers) Has(p Provider) bool { return s>>p&1 != 0 }

// Takes reports whether r takes what comes from p, which is one atomic load. All
// recorders except that of a flight recorder take everything, or nothing: see Discards.
// A nil Recorder takes nothing.
func (r *Recorder) Takes(p Provider) bool { return r != nil && Providers(r.on.Load()).Has(p) }
