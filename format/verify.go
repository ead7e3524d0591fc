package format

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/entrace-go/entrace/internal/core/wire"
)

// Problems that [File.Verify] reports, but that the readers of this package accept.
var (
	errNotUTF8      = errors.New("the text is not UTF-8: other readers refuse the file")
	errNotShortest  = errors.New("the number is not in its shortest form")
	errUnsorted     = errors.New("the names are not sorted: other readers may not find an attribute")
	errDuplicate    = errors.New("the name occurs twice: other readers find only one of the two")
	errNotRoot      = errors.New("the first entry is not the root entry that recorders write")
	errPoolParent   = errors.New("the pool and the entry name different parents")
	errAllZero      = errors.New("all bytes of the entry are 0")
	errMissingEntry = errors.New("the file has no entries")
	// ErrNumbered is reported for an attribute whose name ends in a number such as #2. It is no fault if the
	// application itself uses such names.
	ErrNumbered = errors.New("no other attribute has the name without its number: an earlier recorder may have added the number after a rotation")
)

// Verify checks every byte of a file that was opened with [OpenOptions].Lenient. It calls found for each problem, in
// the order of the file, with a [*CorruptError] or [*TruncatedError]. Verify does not report a missing clean end: see
// [Report].Ended.
func (f *File) Verify(found func(problem error)) error {
	// Compare the entries with the pool of an ET, if its tables can be read.
	var pool []uint32
	if f.format == ET && f.damage == nil {
		var err error
		pool, err = f.tables(true)
		if err != nil {
			return f.readError(err)
		}
	}
	v := verifier{f: f, pool: pool, found: found}
	if f.Len() == 0 && f.damage == nil {
		found(&CorruptError{Offset: f.data, Entry: noEntry, Err: errMissingEntry})
	}
	if f.longer {
		found(&CorruptError{Offset: wire.MagicSize, Entry: noEntry, Field: "offsets and pool", Err: errNotShortest})
	}
	if err := f.walkRaw(0, v.entry); err != nil {
		return err
	}
	if f.damage != nil {
		found(f.damage)
	}
	return nil
}

type verifier struct {
	f     *File
	pool  []uint32 // for an ET: the parent of each entry according to the pool; otherwise nil
	e     TraceEntry
	found func(error)

	numbered bool // ErrNumbered was already reported; it is reported only once
}

func (v *verifier) entry(id uint32, raw []byte) error {
	d := v.f.decoder(raw, id)
	report := func(field string, err error) {
		v.found(&CorruptError{Offset: d.base, Entry: int64(id), Field: field, Err: err})
	}
	d.traceEntry(&v.e)
	if err := d.Err(); err != nil {
		v.found(err)
		return nil
	}
	if d.off < len(raw) {
		report("", errTrailingBytes)
	}
	if d.longer {
		report("", errNotShortest)
	}
	if v.pool != nil && v.e.Parent != v.pool[id] {
		report("parent", errPoolParent)
	}
	if wire.IsZero(raw) {
		report("", errAllZero)
	}
	if id == 0 {
		if root := AppendTraceEntry(nil, v.f.version, Root()); string(root) != string(raw) {
			report("", errNotRoot)
		}
	}
	m := &v.e.Metadata
	for _, text := range []struct{ field, s string }{
		{"message", v.e.Message.Value},
		{"name", m.Name},
		{"target", m.Target},
		{"module_path", m.ModulePath.Value},
		{"file", m.File.Value},
	} {
		if !utf8.ValidString(text.s) {
			report(text.field, errNotUTF8)
		}
	}
	for i := range v.e.Attributes {
		a := &v.e.Attributes[i]
		if !utf8.ValidString(a.Name) || a.Value.kind == KindString && !utf8.ValidString(a.Value.Text()) {
			report(fmt.Sprintf("attributes[%d]", i), errNotUTF8)
		}
		if !v.numbered && v.isNumbered(a.Name) {
			v.numbered = true
			report(fmt.Sprintf("attributes[%d] %q", i, a.Name), ErrNumbered)
		}
		if !v.f.version.hasColumns() || i == 0 {
			continue
		}
		switch last := v.e.Attributes[i-1].Name; {
		case a.Name < last:
			report(fmt.Sprintf("attr_names[%d]", i), errUnsorted)
		case a.Name == last:
			report(fmt.Sprintf("attr_names[%d]", i), errDuplicate)
		}
	}
	return nil
}

// isNumbered reports whether a name ends with a number such as #2, although the entry has no attribute with the
// same name without the number.
func (v *verifier) isNumbered(name string) bool {
	i := strings.LastIndexByte(name, '#')
	if i < 1 {
		return false
	}
	if n, err := strconv.Atoi(name[i+1:]); err != nil || n < 2 {
		return false
	}
	_, has := v.e.Attribute(name[:i])
	has = has || name[:i] == "key" // recovery uses the name "key" if the definition of a name is lost
	return !has
}
