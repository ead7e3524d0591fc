package measureme

import "encoding/binary"

// The constants of the file format.
const (
	magicFile    = "MMPD"
	magicEvents  = "MMES"
	magicStrings = "MMSD"
	magicIndex   = "MMSI"

	version    = 9
	oldVersion = 8

	headerSize     = 8 // size of the header of the file, and of each stream
	pageHeaderSize = 5

	tagEvents  = 0
	tagStrings = 1
	tagIndex   = 2
	numTags    = 3

	metadataID   = 100_000_001
	firstRegular = 100_000_003 // the id of the string at address 0

	terminator = 0xff // after a string
	reference  = 0xfe // before the id of another string

	separator = '\x1e' // between the label and the arguments in the id of an event

	maxNano     = 1<<48 - 1
	markInstant = maxNano     // instead of the end of an interval: the event is an instant
	markInteger = maxNano - 1 // instead of the end of an interval: the event is an integer

	eventSize      = 32
	eventSizeV8    = 24
	indexSize      = 16
	indexSizeV8    = 8
	idSize         = 8
	idSizeV8       = 4
	metadataOffset = headerSize // where the reference writes the metadata

	// fullPageSize is the size of a full page of events. A page that was reserved but never written is a hole of
	// fullPageSize zero bytes. Several such pages are a hole of a multiple of this size.
	fullPageSize = pageHeaderSize + 256<<10
)

var streamMagics = [numTags]string{magicEvents, magicStrings, magicIndex}

// An event is a record of version 9.
type event struct {
	kind, id           uint64
	thread             uint32
	low1, low2, uppers uint32
}

func (e *event) first() uint64  { return uint64(e.low1) | uint64(e.uppers>>16)<<32 }
func (e *event) second() uint64 { return uint64(e.low2) | uint64(e.uppers&0xffff)<<32 }

// parse reads the record of an event of version v from b. b has the whole record.
func (e *event) parse(b []byte, v uint32) {
	e.kind, e.id, b = cutPair(b, v)
	e.thread = binary.LittleEndian.Uint32(b)
	e.low1, e.low2, e.uppers = binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
}

// cutPair reads two numbers from b: of 32 bits each in oldVersion, of 64 bits otherwise.
func cutPair(b []byte, v uint32) (x, y uint64, rest []byte) {
	if v == oldVersion {
		return uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:])), b[8:]
	}
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]), b[16:]
}
