package parquet

import (
	pq "github.com/parquet-go/parquet-go"
	meta "github.com/parquet-go/parquet-go/format"
)

// The columns of the table that hold one value a row, in its order. Part of the
// format.
const (
	colID = iota
	colParent
	colStoredParent
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
	colOrder
	colRest

	numScalars
)

// The columns that are maps, which come behind the others.
const (
	mapString = iota
	mapInt
	mapFloat
	mapBool
	mapBytes
	mapBig

	numMaps
)

// A column is one of the table.
type column struct {
	name     string
	physical meta.Type
	optional bool
	text     bool // a STRING
	dict     bool // few values, or those that come again and again
}

var scalars = [numScalars]column{
	colID:           {name: "id", physical: meta.Int64},
	colParent:       {name: "parent", physical: meta.Int64},
	colStoredParent: {name: "stored_parent", physical: meta.Int64, optional: true},
	colRole:         {name: "role", physical: meta.ByteArray, text: true, dict: true},
	colName:         {name: "name", physical: meta.ByteArray, text: true, dict: true},
	colMessage:      {name: "message", physical: meta.ByteArray, text: true, dict: true, optional: true},
	colTarget:       {name: "target", physical: meta.ByteArray, text: true, dict: true},
	colLevel:        {name: "level", physical: meta.ByteArray, text: true, dict: true},
	colModulePath:   {name: "module_path", physical: meta.ByteArray, text: true, dict: true, optional: true},
	colFile:         {name: "file", physical: meta.ByteArray, text: true, dict: true, optional: true},
	colLine:         {name: "line", physical: meta.Int64, dict: true, optional: true},
	colService:      {name: "service", physical: meta.ByteArray, text: true, dict: true, optional: true},
	colTraceID:      {name: "trace_id", physical: meta.ByteArray, text: true, dict: true, optional: true},
	colSpanID:       {name: "span_id", physical: meta.ByteArray, text: true, optional: true},
	colParentSpanID: {name: "parent_span_id", physical: meta.ByteArray, text: true, optional: true},
	colTime:         {name: "time_unix_nano", physical: meta.Int64, optional: true},
	colDuration:     {name: "duration_nano", physical: meta.Int64, optional: true},
	colKind:         {name: "kind", physical: meta.ByteArray, text: true, dict: true, optional: true},
	colStatus:       {name: "status", physical: meta.ByteArray, text: true, dict: true, optional: true},
	colOrder:        {name: "attribute_order", physical: meta.ByteArray, text: true, dict: true, optional: true},
	colRest:         {name: "attribute_rest", physical: meta.ByteArray, optional: true},
}

var maps = [numMaps]column{
	mapString: {name: "attributes_string", physical: meta.ByteArray, text: true, dict: true},
	mapInt:    {name: "attributes_int", physical: meta.Int64},
	mapFloat:  {name: "attributes_float", physical: meta.Double},
	mapBool:   {name: "attributes_bool", physical: meta.Boolean},
	mapBytes:  {name: "attributes_bytes", physical: meta.ByteArray},
	mapBig:    {name: "attributes_big", physical: meta.ByteArray, text: true},
}

// The letters of colOrder: which column the next attribute of an entry is in, and
// of which kind it is. Part of the format.
const (
	inTraceID      = 'T'
	inSpanID       = 'S'
	inParentSpanID = 'P'
	inTime         = 'M' // U64
	inTimeSigned   = 'N' // I64
	inDuration     = 'D' // U64
	inKind         = 'K'
	inStatus       = 'X'

	asString = 's'
	asI64    = 'i'
	asU64    = 'u'
	asFloat  = 'f'
	asBool   = 'b'
	asBytes  = 'y'
	asBigU64 = 'U' // in mapBig, as are the next two
	asU128   = 'v'
	asI128   = 'w'
	inRest   = '+'
)

// What the columns kind and status say where a span has no such attribute.
const (
	kindInternal = "internal"
	statusUnset  = "UNSET"
)

// A table is a group of columns in an order of its own; the library's groups are
// in that of names.
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
	case c.text:
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
	if c.dict {
		n = pq.Encoded(n, &pq.RLEDictionary)
	} else {
		n = pq.Encoded(n, &pq.Plain)
	}
	if c.optional {
		n = pq.Optional(n)
	}
	return n
}
