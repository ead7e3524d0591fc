package parquet

// A pageHeader is PageHeader of Parquet.
type pageHeader struct {
	kind                     int64
	uncompressed, compressed int64
	crc                      uint32
	hasCRC                   bool
	numValues                int64
	encoding                 int64
	levels                   [2]int64 // encodings of definition and repetition levels
	defSize, repSize         int64    // of version 2
	plain                    bool     // in version 2: not compressed
}

// readPageHeader reads the header of a page.
func readPageHeader(t *thrift) pageHeader {
	h := pageHeader{levels: [2]int64{encodingRLE, encodingRLE}}
	data := func(id int16, kind byte) {
		switch id {
		case 1:
			h.numValues = t.count(kind)
		case 2:
			h.encoding = t.count(kind)
		case 3, 4:
			if kind == thriftTrue || kind == thriftFalse {
				break // whether a dictionary is sorted
			}
			h.levels[id-3] = t.count(kind)
		default:
			t.skip(kind)
		}
	}
	dataV2 := func(id int16, kind byte) {
		switch id {
		case 1:
			h.numValues = t.count(kind)
		case 4:
			h.encoding = t.count(kind)
		case 5:
			h.defSize = t.count(kind)
		case 6:
			h.repSize = t.count(kind)
		case 7:
			h.plain = kind == thriftFalse
		default:
			t.skip(kind)
		}
	}
	t.fields(func(id int16, kind byte) {
		switch {
		case id == 1:
			h.kind = t.count(kind)
		case id == 2:
			h.uncompressed = t.count(kind)
		case id == 3:
			h.compressed = t.count(kind)
		case id == 4:
			h.crc, h.hasCRC = uint32(t.number(kind)), true
		case (id == 5 || id == 7) && kind == thriftStruct:
			t.fields(data)
		case id == 8 && kind == thriftStruct:
			t.fields(dataV2)
		default:
			t.skip(kind)
		}
	})
	return h
}
