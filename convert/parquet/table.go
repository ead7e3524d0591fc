package parquet

import (
	pq "github.com/parquet-go/parquet-go"
	meta "github.com/parquet-go/parquet-go/format"
)

// The columns with one value per row, in the order of the table. This order is a part of the format.
const (
	colID = iota
	colParent
	colRole
	colName
	colMessage
	colTarget
	colLevel
	colModulePath
	colFile
	colLine
	colService
	colTraceID
	colSpanID
	colParentSpanID
	colTime
	colDuration
	colKind
	colStatus

	numScalars
)

// The columns that are maps. They are after the other columns.
const (
	mapString = iota
	mapInt
	mapFloat
	mapBool
	mapBytes
	mapBig

	numMaps
)

// A column describes one column of the table.
type column struct {
	name     string
	physical meta.Type
	is       property
}

// A property is a property of a column. Properties are bits.
type property uint8

const (
	optional property = 1 << iota
	text              // a STRING
	dict              // few different values, or values that often repeat
)

func (c *column) has(p property) bool { return c.is&p > 0 }

var scalars = [numScalars]column{
	colID:           {"id", meta.Int64, 0},
	colParent:       {"parent", meta.Int64, 0},
	colRole:         {"role", meta.ByteArray, text | dict},
	colName:         {"name", meta.ByteArray, text | dict},
	colMessage:      {"message", meta.ByteArray, text | dict | optional},
	colTarget:       {"target", meta.ByteArray, text | dict},
	colLevel:        {"level", meta.ByteArray, text | dict},
	colModulePath:   {"module_path", meta.ByteArray, text | dict | optional},
	colFile:         {"file", meta.ByteArray, text | dict | optional},
	colLine:         {"line", meta.Int64, dict | optional},
	colService:      {"service", meta.ByteArray, text | dict | optional},
	colTraceID:      {"trace_id", meta.ByteArray, text | dict | optional},
	colSpanID:       {"span_id", meta.ByteArray, text | optional},
	colParentSpanID: {"parent_span_id", meta.ByteArray, text | optional},
	colTime:         {"time_unix_nano", meta.Int64, optional},
	colDuration:     {"duration_nano", meta.Int64, optional},
	colKind:         {"kind", meta.ByteArray, text | dict | optional},
	colStatus:       {"status", meta.ByteArray, text | dict | optional},
}

var maps = [numMaps]column{
	mapString: {"attributes_string", meta.ByteArray, text | dict},
	mapInt:    {"attributes_int", meta.Int64, 0},
	mapFloat:  {"attributes_float", meta.Double, 0},
	mapBool:   {"attributes_bool", meta.Boolean, 0},
	mapBytes:  {"attributes_bytes", meta.ByteArray, 0},
	mapBig:    {"attributes_big", meta.ByteArray, text},
}

// The values of kind and status for a span without the attribute.
const (
	kindInternal = "internal"
	statusUnset  = "UNSET"
)

// A table is a group of columns that keep their order. The library would sort them by name.
type table struct {
	pq.Group
	names []string
}

// Fields returns the columns in the order of the table.
func (t table) Fields() []pq.Field {
	byName := make(map[string]pq.Field, len(t.names))
	for _, f := range t.Group.Fields() {
		byName[f.Name()] = f
	}
	fields := make([]pq.Field, len(t.names))
	for i, name := range t.names {
		fields[i] = byName[name]
	}
	return fields
}

// schema returns the schema of the table.
func schema() *pq.Schema {
	t := table{Group: make(pq.Group)}
	for i := range scalars {
		c := &scalars[i]
		t.names = append(t.names, c.name)
		t.Group[c.name] = c.node()
	}
	for i := range maps {
		c := &maps[i]
		t.names = append(t.names, c.name)
		t.Group[c.name] = pq.Map(pq.Encoded(pq.String(), &pq.RLEDictionary), c.node())
	}
	return pq.NewSchema("entrace", t)
}

func (c *column) node() pq.Node {
	var n pq.Node
	switch {
	case c.has(text):
		n = pq.String()
	case c.physical == meta.Int64:
		n = pq.Leaf(pq.Int64Type)
	case c.physical == meta.Double:
		n = pq.Leaf(pq.DoubleType)
	case c.physical == meta.Boolean:
		n = pq.Leaf(pq.BooleanType)
	default:
		n = pq.Leaf(pq.ByteArrayType)
	}
	if c.has(dict) {
		n = pq.Encoded(n, &pq.RLEDictionary)
	} else {
		n = pq.Encoded(n, &pq.Plain)
	}
	if c.has(optional) {
		n = pq.Optional(n)
	}
	return n
}
