package heph

// The attributes that store the origin of an entry. They are part of the mapping: see the package
// documentation.
const (
	attrHephPacket     = "heph.packet"       // U64, the packet's ordinal
	attrHephStream     = "heph.stream_id"    // U64
	attrHephSubstream  = "heph.substream_id" // U64
	attrHephCounter    = "heph.counter"      // U64
	attrHephStart      = "heph.start"        // U64, if the times cannot express it
	attrHephEnd        = "heph.end"
	attrHephText       = "heph.description" // Bytes, if the name cannot express it
	attrHephAttributes = "heph.attributes"  // Bytes, if the attributes cannot express it
	attrHephName       = "heph.name"        // String or Bytes, the name of an option
	attrHephValue      = "heph.value"       // Bytes, its value

	nameOption = "heph.option"

	prefixHeph = "heph."
	escapeHeph = "heph.attr."
	escapeOTel = "otel.attr."
)
