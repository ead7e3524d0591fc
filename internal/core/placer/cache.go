package placer

import (
	"strconv"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/wire"
)

// A name is the stored name of an attribute. The application's names and our own names are separate, so a text can
// be the text of two names.
type name struct {
	text    string
	encoded []byte // the length and the text
	own     bool   // one of our own names, not the application's
	used    uint64 // the value of definitionCache.entries for the last entry with this name
}

// A place is the encoded head that is common to all entries of one place in the source code.
type place struct {
	message []byte // the encoded Option of the message
	head    []byte // the encoded head without the message
	levelAt int    // offset of the level in head
}

// A path is the number of a list of nested groups of attributes. 0 means no group.
type path int32

// unknownPath means nested groups that have no number.
const unknownPath path = -1

type pathKey struct {
	path   path
	number uint16
}

// definitionCache caches the encodings of definitions by their numbers. The encoders of consecutive files share
// one. It counts the entries of all these files, because ids of entries begin at 0 in each file.
type definitionCache struct {
	table   *record.Table
	entries uint64   // number of entries so far
	byNum   []*name  // stored names by number: our own names unchanged, the application's escaped
	places  []*place // by number
	groups  []string // by path: the prefix, with a dot at its end
	paths   map[pathKey]path
	inPath  map[pathKey]*name // attributes in groups

	all map[string]*name // the application's names, by stored text
	own map[string]*name // our own names
	// inPlace has the application's names that have no number, by the text in the record.
	inPlace map[string]*name
	size    int // approximate memory of these three maps in bytes
}

// maxPaths bounds the number of cached groups, and of cached attributes in groups.
const maxPaths = 1 << 14

func newDefinitionCache(t *record.Table) *definitionCache {
	return &definitionCache{
		table: t, groups: []string{""}, paths: make(map[pathKey]path), inPath: make(map[pathKey]*name),
		all: make(map[string]*name), own: make(map[string]*name), inPlace: make(map[string]*name),
	}
}

const (
	// maxNames is roughly how many bytes of names are cached. nameSize is the memory of one name without its text.
	maxNames = 8 << 20
	nameSize = 128
)

// trim empties the caches of names if they take too much memory. It must not be called while an entry
// is being encoded.
func (n *definitionCache) trim() {
	if n.size > maxNames {
		n.size = 0
		clear(n.all)
		clear(n.own)
		clear(n.inPlace)
		clear(n.inPath)
		clear(n.byNum)
	}
}

// stored returns the application's name with the given stored text.
func (n *definitionCache) stored(text string) *name { return n.in(n.all, text, false) }

// ownName returns our own name with the given text.
func (n *definitionCache) ownName(text string) *name { return n.in(n.own, text, true) }

func (n *definitionCache) in(all map[string]*name, text string, own bool) *name {
	at := all[text]
	if at == nil {
		at = &name{text: text, encoded: wire.AppendString(nil, text), own: own}
		all[text] = at
		n.size += nameSize + 2*len(text)
	}
	return at
}

// userName returns the stored name of an attribute that the application called b.
func (n *definitionCache) userName(b []byte) *name {
	if at := n.inPlace[string(b)]; at != nil {
		return at
	}
	at := n.stored(mapping.EscapeName(wire.ValidText(string(b))))
	n.inPlace[string(b)] = at
	n.size += nameSize + len(b)
	return at
}

// text returns the text of the definition with the given number. After a power failure the definition may be
// missing. The text is then "key#" and the number.
func (n *definitionCache) text(number uint16) (text string, own bool) {
	d := n.table.Get(number)
	if d == nil || d.Kind != record.DefName && d.Kind != record.DefOwn {
		return "key#" + strconv.Itoa(int(number)), false
	}
	return d.Text, d.Kind == record.DefOwn
}

// number returns the stored name with the given number: our own name unchanged, or the application's name escaped.
func (n *definitionCache) number(number uint16) *name {
	if int(number) < len(n.byNum) && n.byNum[number] != nil {
		return n.byNum[number]
	}
	text, own := n.text(number)
	text = wire.ValidText(text)
	at := n.ownName
	if !own {
		text, at = mapping.EscapeName(text), n.stored
	}
	for len(n.byNum) <= int(number) {
		n.byNum = append(n.byNum, nil)
	}
	n.byNum[number] = at(text)
	return n.byNum[number]
}

// enter returns the path of the group with the given number inside the groups of p.
func (n *definitionCache) enter(p path, number uint16) path {
	if p == unknownPath || number == 0 {
		return unknownPath
	}
	key := pathKey{p, number}
	if q, ok := n.paths[key]; ok {
		return q
	}
	if len(n.groups) > maxPaths {
		return unknownPath
	}
	text, _ := n.text(number)
	q := path(len(n.groups))
	n.groups = append(n.groups, n.groups[p]+text+".")
	n.paths[key] = q
	return q
}

// attribute returns the stored name of an attribute of the application that is in the groups of p.
func (n *definitionCache) attribute(p path, number uint16) *name {
	key := pathKey{p, number}
	if at := n.inPath[key]; at != nil {
		return at
	}
	text, _ := n.text(number)
	at := n.stored(mapping.EscapeName(wire.ValidText(n.groups[p] + text)))
	if len(n.inPath) < maxPaths {
		n.inPath[key] = at
	}
	return at
}

// place returns the place with the given number, or nil if its definition is missing.
func (n *definitionCache) place(number uint16) *place {
	if int(number) < len(n.places) && n.places[number] != nil {
		return n.places[number]
	}
	d := n.table.Get(number)
	if d == nil || d.Kind != record.DefPlace {
		return nil
	}
	c := record.CursorAt(d)
	var h record.Head
	if !c.Next(&h) {
		return nil
	}
	w := n.head(&h)
	p := &place{message: []byte{0}}
	if w.HasMessage {
		p.message = wire.AppendString([]byte{1}, w.Message)
	}
	p.levelAt = len(wire.AppendString(wire.AppendString(nil, w.Name), w.Target))
	p.head = w.AppendPlace(nil)
	for len(n.places) <= int(number) {
		n.places = append(n.places, nil)
	}
	n.places[number] = p
	return p
}

// head returns h with the texts that its numbers stand for.
func (n *definitionCache) head(h *record.Head) wire.Head {
	text := func(t record.Text) string {
		if t.Number == 0 {
			return wire.ValidText(t.Text)
		}
		s, _ := n.text(t.Number)
		return wire.ValidText(s)
	}
	return wire.Head{
		Message: wire.ValidText(h.Message), Name: text(h.Name), Target: text(h.Target), Module: text(h.Module), File: text(h.File),
		Line: h.Line, Level: h.Level, HasMessage: h.HasMessage, HasModule: h.HasModule, HasFile: h.HasFile, HasLine: h.HasLine,
	}
}
