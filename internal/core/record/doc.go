// Package record defines the layout of the records in a recorder's journal. A record describes
// a log record, a span with its links and events, or the end of a span. In a record, numbers
// replace names, and values are not encoded yet. Package placer turns records into entries.
//
// # Layout
//
// For each record, package journal stores the time, the number of entries and of spans, and these 32 bits:
//
//	kind     4 bits
//	provider 6 bits
//	flags    8 bits
//	resource 14 bits // the number of a definition; 0: none
//
// The data of a record are:
//
//	ref     [24]byte // trace id and span id, with FlagRef
//	parent  [24]byte // with FlagParent
//	entries []entry
//
//	entry {
//		head    uint8 // see the head… constants
//		level   uint8
//		place   number           // with headPlace; else
//		name    text
//		target  text
//		module  text             // with headModule
//		file    text             // with headFile
//		line    uvarint          // with headLine
//		message uvarint, bytes   // with headMessage
//		items   []item           // until codeEnd
//	}
//
//	number: a byte from 1 to 127, or two bytes, the first with bit 7 set and the higher bits
//	text:   a number, or 0 and uvarint, bytes
//	item:   a number and a value, or 0 and a code, see the code… constants
//	value:  a byte, see the value… constants, and data
//
// # Definitions
//
// A number refers to a definition, which is a record in the journal's stream of definitions. A definition is
// written before the first record that has its number. If the journal has no room for another definition, records
// have the names themselves.
//
//	definition {
//		time = number, info.user = DefName, DefOwn, DefPlace or DefResource
//		data: the name; for a place an entry without items, with the message of the place;
//		      for a resource an entry
//	}
package record

import "github.com/entrace-go/entrace/internal/core/journal"

// A Kind is a kind of record. Its values are a part of the journal's layout.
type Kind uint8

// The kinds of records.
const (
	KindLog      Kind = 1 // one entry
	KindSpan     Kind = 2 // a span, then its links and events
	KindEnd      Kind = 3 // the later links and events of a span, then its end
	KindResource Kind = 4 // the resource itself
	KindEither   Kind = 5 // a span as for KindSpan, then its end, of which a reader uses one; no longer written
	KindMark     Kind = 6 // a span has ended, but the record of its end was evicted
	// KindElsewhere says that a span is in another file, so that no record waits for it to arrive.
	KindElsewhere Kind = 7
)

// The flags of a record. Part of the journal's layout.
const (
	FlagRef    = 1  // the record has a ref
	FlagParent = 2  // the record has a parent
	FlagRemote = 4  // the parent is in another process
	FlagWait   = 8  // the placer holds the span until its parent has arrived, and a log record while its span is held
	FlagOpen   = 16 // the span has not ended
)

// MaxProviders is the number of providers that a record can name.
const MaxProviders = 64

// A Provider is the number of a source of records, below [MaxProviders]. Package control gives
// providers names.
type Provider uint8

// The providers of spans and log records.
const (
	ProviderSpans Provider = 0 // spans, with their links, events and ends
	ProviderLogs  Provider = 1 // log records
)

// Providers is a set of providers: one bit for each provider.
type Providers uint64

// Has reports whether p is in the set.
func (s Providers) Has(p Provider) bool { return s>>p&1 != 0 }

// MaxNumber is the largest number of a definition.
const MaxNumber = 1<<14 - 1

// Info returns the journal.Info of a record with the given fields.
func Info(kind Kind, provider, flags uint8, resource uint16, entries int) journal.Info {
	spans := 0
	if kind == KindSpan {
		spans = 1
	}
	user := uint32(kind) | uint32(provider)<<4 | uint32(flags)<<10 | uint32(resource)<<18
	return journal.NewInfo(entries, spans, user)
}

// The bits of the first byte of an entry. Part of the journal's layout.
const (
	headMessage      = 1
	headPlace        = 2
	headPlaceMessage = 4 // the message is that of the place
	headModule       = 8
	headFile         = 16
	headLine         = 32
)

// The codes that follow a 0 in place of a number. Part of the journal's layout.
const (
	codeEnd       = 0 // the end of the entry
	codeName      = 1 // uvarint, the user's name, a value
	codeOwn       = 2 // uvarint, a name that is stored unchanged, a value
	codeGroup     = 3 // text: a prefix of the user's names until codeGroupEnd or the end of the entry
	codeGroupEnd  = 4
	codeShared    = 5 // items that several records share, see journal
	codeTruncated = 6 // a part of the entry was left out
	codeTime      = 7 // the attribute with the time of the record
)

// The low 4 bits of a value's first byte are its kind. The high 4 bits are the size of an integer in bytes, or the
// value of a Bool. The kinds 0 to 7 are the kinds of package wire. Part of the journal's layout.
const (
	ValueString   = 0  // uvarint, bytes
	ValueBytes    = 1  // uvarint, bytes
	ValueBool     = 2  //
	ValueFloat    = 3  // 8 bytes
	ValueU64      = 4  // little-endian, without leading zeros
	ValueI64      = 5  // zigzag, then as ValueU64
	ValueU128     = 6  // low half, high half
	ValueI128     = 7  // low half, high half
	ValueTime     = 8  // seconds since 1970, int64; nanoseconds, uint32; zone offset in seconds, int32
	ValueJSON     = 9  // uvarint, bytes
	ValueAnyValue = 10 // uvarint, bytes: OTLP/JSON
	ValueHex      = 11 // uvarint, bytes: becomes a String of the bytes in hex digits
	ValueDuration = 12 // as ValueI64
)

// The kinds of definitions. Part of the journal's layout.
const (
	DefName     = 1 // the user's name of an attribute
	DefOwn      = 2 // any other text, stored unchanged
	DefPlace    = 3
	DefResource = 4
)

// A Ref identifies a span: it is the trace id followed by the span id. The zero Ref means no span.
type Ref [RefSize]byte

// RefSize is the size of a Ref.
const RefSize = 24

// TraceID returns the trace id, which aliases r.
func (r *Ref) TraceID() []byte { return r[:16] }

// SpanID returns the span id, which aliases r.
func (r *Ref) SpanID() []byte { return r[16:] }
