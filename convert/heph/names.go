package heph

// The attributes of entries that say what their packets were. Part of the mapping: see the package
// documentation.
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
