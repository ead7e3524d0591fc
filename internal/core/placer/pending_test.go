package placer

import (
	"testing"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/record"
)

// TestPendingKeepsLittle checks the memory of pendingRecords. It must be reused when one record at a time is
// pending, and freed after a burst.
func TestPendingKeepsLittle(t *testing.T) {
	var p pendingRecords
	e := journal.Entry{Info: record.Info(record.KindSpan, 0, 0, 0, 1), Data: make([]byte, 10_000)}
	ref := func(i int) record.Ref { return record.Ref{byte(i), byte(i >> 8), 1} }
	add := func(i int) { p.add(ref(i), ref(60_000), &e, nil) }
	release := func() {
		for _, i := range p.children(ref(60_000), nil) {
			p.remove(i)
		}
	}
	for i := range 1000 {
		add(i)
		release()
	}
	if cap(p.data) > 2*len(e.Data) || len(p.all) > 2 {
		t.Errorf("%d bytes and %d places are kept", cap(p.data), len(p.all))
	}
	for i := range 1000 {
		add(i)
	}
	if most := p.bytes + p.bytes/2; cap(p.data) > most {
		t.Errorf("%d bytes take %d, want %d at most", p.bytes, cap(p.data), most)
	}
	release()
	if cap(p.data) > 0 || len(p.all) > 0 {
		t.Errorf("%d bytes and %d places are kept after a burst", cap(p.data), len(p.all))
	}
}
