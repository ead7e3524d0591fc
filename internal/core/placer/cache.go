package placer

import (
	"strconv"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/wire"
)

// A name is the stored name of an attribute. Names of the user and own names are cached
// separately, with one name for each text.
type name struct {
	text    string
	encoded []byte // with its length
	own     bool   // it is not the user's
	used    uint64 // the last entry that has it, counted by names.entries
}

// A place is the encoded head that all entries of one place in the source share.
type place struct {
	message []byte // the Option
	head    []byte // from the name on
	levelAt int    // in head
}

// A path is the number of a list of nested groups. 0 means no group.
type path int32

// unknownPath stands for nested groups without a path number.
const unknownPath path = -1

type pathKey struct {
	path   path
	number uint16
}

// names caches what the numbers of definitions stand for. Encoders of several files may share one,
// so it counts the entries of all of them: the ids of entries begin again with each file.
type names struct {
	table   *record.Table
	entries uint64   // that were begun
	byNum   []*name  // the name itself, or as an attribute of the user's
	places  []*place // by number
	groups  []string // by path: the prefix, with a dot at its end
	paths   map[pathKey]path
	inPath  map[pathKey]*name // attributes in groups

	all map[string]*name // the user's, as they are stored
	own map[string]*name
	// The user's that have no number, as they come.
	inPlace map[string]*name
	size    int // about how many bytes these three take
}

// maxPaths bounds what is cached of groups.
const maxPaths = 1 << 14

func newNames(t *record.Table) *names {
	return &names{
		table: t, groups: []string{""}, paths: make(map[pathKey]path), inPath: make(map[pathKey]*name),
		all: make(map[string]*name), own: make(map[string]*name), inPlace: make(map[string]*name),
	}
}

const (
	// maxNames is about how many bytes of names are cached. NameSize is the memory of one name
	// without its text.
	maxNames = 8 << 20
	nameSize = 128
)

// trim forgets names if they take too much. No entry is being encoded.
func (n *names) trim() {
	if n.size > maxNames {
		n.size = 0
		clear(n.all)
		clear(n.own)
		clear(n.inPlace)
		clear(n.inPath)
		clear(n.byNum)
	}
}

// stored returns the name that is stored as text, which is the user's.
func (n *names) stored(text string) *name { return n.in(n.all, text, false) }

// ownName returns a name that is not the user's.
func (n *names) ownName(text string) *name { return n.in(n.own, text, true) }

func (n *names) in(all map[string]*name, text string, own bool) *name {
	at := all[text]
	if at == nil {
		at = &name{text: text, encoded: wire.AppendString(nil, text), own: own}
		all[text] = at
		n.size += nameSize + 2*len(text)
	}
	return at
}

// userName returns the stored name of an attribute of the user's.
func (n *names) userName(b []byte) *name {
	if at := n.inPlace[string(b)]; at != nil {
		return at
	}
	at := n.stored(mapping.EscapeName(wire.ValidText(string(b))))
	n.inPlace[string(b)] = at
	n.size += nameSize + len(b)
	return at
}

// text returns the text that a number stands for. A loss of power can leave a number without
// a definition: its text is "key#" and the number.
func (n *names) text(number uint16) (text string, own bool) {
	d := n.table.Get(number)
	if d == nil || d.Kind != record.DefName && d.Kind != record.DefOwn {
		return "key#" + strconv.Itoa(int(number)), false
	}
	return d.Text, d.Kind == record.DefOwn
}

// number returns what a number stands for: a name as it is, or the user's escaped.
func (n *names) number(number uint16) *name {
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

// enter returns the path of a group in another.
func (n *names) enter(p path, number uint16) path {
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

// attribute returns the stored name of a user's attribute in a group.
func (n *names) attribute(p path, number uint16) *name {
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

// place returns the head of a place, nil if its definition is missing.
func (n *names) place(number uint16) *place {
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

// head returns a head without numbers.
func (n *names) head(h *record.Head) wire.Head {
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
