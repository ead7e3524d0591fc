package heph

import "strings"

// The attributes of packets that say what an entry is and Heph has no place for.
// Part of the mapping: see the package documentation.
const (
	attrID       = "entrace.id"      // u64, the entry
	attrParent   = "entrace.parent"  // u64, where containment does not say it
	attrLevel    = "entrace.level"   // string; absent = INFO
	attrTarget   = "entrace.target"  // string
	attrMessage  = "entrace.message" // string
	attrModule   = "entrace.module_path"
	attrFile     = "entrace.file"
	attrLine     = "entrace.line" // u64
	attrName     = "entrace.name" // string, the rest of a name longer than a description
	attrTime     = "entrace.time" // string: timeStart, timeBoth or timeNone
	attrOpen     = "entrace.open" // u64 1: a span that has not ended
	attrKey      = "entrace.key"  // string, the name of the next attribute, which is called attrValue
	attrValue    = "entrace.value"
	attrTypes    = "otel.types"       // string, JSON: the types of attributes that Heph has none for
	attrEncoding = "entrace.encoding" // u64, of the last packet: the version of this mapping
	attrSum      = "entrace.sum"      // u64, likewise: the CRC-32C of all bytes before the packet

	escapePacket = "entrace.attr." // an entry's attribute that is called as one of these
	encoding     = 1
)

// What attrTime says. Without it a packet that takes time has both start and
// duration, one that takes none has a start alone.
const (
	timeStart = "start" // end is no duration
	timeBoth  = "both"  // a duration of 0
	timeNone  = "none"  // start and end only give the packet a place
)

// The attributes of entries that say what their packets were.
const (
	attrHephPacket     = "heph.packet"       // U64, the packet's ordinal
	attrHephStream     = "heph.stream_id"    // U64
	attrHephSubstream  = "heph.substream_id" // U64
	attrHephCounter    = "heph.counter"      // U64
	attrHephStart      = "heph.start"        // U64, where the times cannot say it
	attrHephEnd        = "heph.end"
	attrHephText       = "heph.description" // Bytes, where the name cannot say it
	attrHephAttributes = "heph.attributes"  // Bytes, where the attributes cannot say it
	attrHephName       = "heph.name"        // String or Bytes, the name of an option
	attrHephValue      = "heph.value"       // Bytes, its value

	nameOption = "heph.option"

	prefixHeph = "heph."
	escapeHeph = "heph.attr."
	escapeOTel = "otel.attr."
)

// isPacketAttribute reports whether a packet cannot have an entry's attribute of
// that name as it is.
func isPacketAttribute(name string) bool {
	if rest, ok := strings.CutPrefix(name, "entrace."); ok {
		switch rest {
		case "id", "parent", "level", "target", "message", "module_path", "file", "line", "name", "time", "open", "key", "value",
			"encoding", "sum":
			return true
		}
		return strings.HasPrefix(rest, "attr.")
	}
	return name == attrTypes || strings.HasPrefix(name, attrTypes+".")
}
