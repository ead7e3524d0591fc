package heph

// Attributes of an entry that describe its packet. They are a part of the mapping, which the package documentation
// describes.
const (
	attrHephPacket    = "heph.packet"       // U64, ordinal of the packet
	attrHephStream    = "heph.stream_id"    // U64
	attrHephSubstream = "heph.substream_id" // U64
	attrHephCounter   = "heph.counter"      // U64
	attrHephStart     = "heph.start"        // U64, if a time of the entry cannot hold it
	attrHephEnd       = "heph.end"
	attrHephText      = "heph.description" // Bytes, if it is not UTF-8
	attrHephName      = "heph.name"        // String or Bytes: the name of an option
	attrHephValue     = "heph.value"       // Bytes: the value of an option

	nameOption = "heph.option"

	prefixHeph = "heph."
	escapeHeph = "heph.attr."
	escapeOTel = "otel.attr."
)
