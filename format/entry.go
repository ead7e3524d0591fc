package format

import (
	"slices"
	"strconv"
	"strings"
)

// A Level is the severity of an entry. In entrace_core it is called LevelContainer.
type Level uint8

// The levels. The numbers are part of the file format.
const (
	LevelTrace Level = 0
	LevelDebug Level = 1
	LevelInfo  Level = 2
	LevelWarn  Level = 3
	LevelError Level = 4

	numLevels = 5
)

var levelNames = [numLevels]string{"TRACE", "DEBUG", "INFO", "WARN", "ERROR"}

// String returns the level's name in capitals.
func (l Level) String() string {
	if l < numLevels {
		return levelNames[l]
	}
	return "Level(" + strconv.Itoa(int(l)) + ")"
}

// An Optional is a value that may be absent. In the formats it is an Option<T>. The zero Optional is absent.
type Optional[T any] struct {
	Value T
	Valid bool
}

// Some returns the Optional that holds v.
func Some[T any](v T) Optional[T] { return Optional[T]{Value: v, Valid: true} }

// Metadata holds the fields that all entries from one place in the source have in common. In entrace_core (lib.rs)
// it is called MetadataContainer.
type Metadata struct {
	Name       string
	Target     string // an instrumentation scope or a package
	Level      Level
	ModulePath Optional[string]
	File       Optional[string]
	Line       Optional[uint32]
}

// An Attribute is a name and a value.
type Attribute struct {
	Name  string
	Value Value
}

// A TraceEntry is one entry of a trace. It corresponds to TraceEntry in entrace_core (entry.rs). It has no field
// for its id, because the id is the position of the entry in the file, from 0 on.
type TraceEntry struct {
	Parent     uint32 // id of an earlier entry; 0 is the root
	Message    Optional[string]
	Metadata   Metadata
	Attributes []Attribute
}

// A PoolEntry holds the ids of the children of one entry in the pool of an ET file. It corresponds to PoolEntry in
// entrace_core (lib.rs). [File.Children] returns these ids for any file.
type PoolEntry struct {
	Children []uint32 // ids, ascending
}

// Root returns a root entry, the first entry of every trace.
func Root() *TraceEntry { return &TraceEntry{Metadata: Metadata{Name: "root"}} }

// Add adds an attribute. It does not replace an attribute with the same name.
func (e *TraceEntry) Add(name string, v Value) {
	e.Attributes = append(e.Attributes, Attribute{name, v})
}

// Attribute returns the value of the first attribute called name, and whether e has such an attribute.
func (e *TraceEntry) Attribute(name string) (Value, bool) {
	for i := range e.Attributes {
		if e.Attributes[i].Name == name {
			return e.Attributes[i].Value, true
		}
	}
	return Value{}, false
}

// Clone returns a copy of e that shares no memory with it.
func (e *TraceEntry) Clone() *TraceEntry {
	c := *e
	c.Message.Value = strings.Clone(e.Message.Value)
	c.Metadata.Name = strings.Clone(e.Metadata.Name)
	c.Metadata.Target = strings.Clone(e.Metadata.Target)
	c.Metadata.ModulePath.Value = strings.Clone(e.Metadata.ModulePath.Value)
	c.Metadata.File.Value = strings.Clone(e.Metadata.File.Value)
	c.Attributes = slices.Clone(e.Attributes)
	for i := range c.Attributes {
		a := &c.Attributes[i]
		a.Name, a.Value = strings.Clone(a.Name), a.Value.clone()
	}
	return &c
}

// SortAttributes sorts a by name, bytewise, as version 2 requires. Attributes with
// the same name keep their order.
func SortAttributes(a []Attribute) {
	// Insertion sort: entries have few attributes, and insertion sort allocates nothing.
	if len(a) > 32 {
		slices.SortStableFunc(a, compareNames)
		return
	}
	for i := 1; i < len(a); i++ {
		for j := i; j > 0 && a[j].Name < a[j-1].Name; j-- {
			a[j], a[j-1] = a[j-1], a[j]
		}
	}
}

func compareNames(a, b Attribute) int { return strings.Compare(a.Name, b.Name) }

// isSorted reports whether a is in the order of SortAttributes.
func isSorted(a []Attribute) bool {
	for i := 1; i < len(a); i++ {
		if a[i].Name < a[i-1].Name {
			return false
		}
	}
	return true
}
