package record

import (
	"sync/atomic"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/wire"
)

// Attributes are attributes that many records have in common. They belong to one Interner and are safe for
// concurrent use.
type Attributes struct {
	in     *Interner // nil: names get no numbers
	items  atomic.Pointer[journal.Shared]
	groups Groups
	uses   atomic.Uint32 // number of uses; not counted beyond the last value of renumberAt
}

// renumberAt lists the counts of uses at which the names in Attributes are replaced by numbers. Numbers are
// scarce: Attributes with fewer uses, for example those of one request, get none.
var renumberAt = [2]uint32{8, 64}

// used counts a use of a. If the count is in renumberAt, it replaces names by numbers.
func (a *Attributes) used() {
	if a.uses.Load() >= renumberAt[1] {
		return
	}
	if n := a.uses.Add(1); n != renumberAt[0] && n != renumberAt[1] || a.in == nil {
		return
	}
	if items := a.in.Renumber(a.items.Load().Bytes()); items != nil {
		a.items.Store(journal.NewShared(items))
	}
}

// Attributes returns new attributes: the attributes of before, which may be nil, and the attributes
// that build adds to b. Groups that are open in before, or after build, remain open in the result. Call
// Attributes while b is building no record, because such a record is lost.
func (b *Builder) Attributes(before *Attributes, build func()) *Attributes {
	b.Reset(0, nil, nil)
	b.Head(&wire.Head{})
	b.User()
	from := b.Mark()
	if before != nil {
		b.Append(before.items.Load().Bytes())
		b.Enter(&before.groups)
	}
	build()
	a := &Attributes{in: b.In, groups: b.Groups()}
	a.items.Store(journal.NewShared(b.Items(from)))
	return a
}

// Add adds the attributes a to a log record, and opens the groups that are open in a. Many records that
// share Attributes need little more memory than one.
func (b *Builder) Add(a *Attributes) {
	a.used()
	b.Share(a.items.Load())
	b.Enter(&a.groups)
}
