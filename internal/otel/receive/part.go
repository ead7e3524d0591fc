package receive

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/otel/sink"
	"github.com/entrace-go/entrace/internal/write/inside"
)

// A request is a request that is being recorded.
type request struct {
	r      *codec.Reader
	ix     *sink.Index
	scopes int64 // number of bytes of copies of scopes that may still be written
	fresh  int   // number of files that the request has created
	hasLog bool
}

// A part is a range of records of a request that have the same resource.
type part struct {
	from, to int
	records  int // number of records that can be recorded
	refused  int // number of spans without ids
	size     int // approximate number of bytes of the records

	// Set by begin.
	resource otel.Resource
	file     *file // nil if no record of the part is recorded
	leave    func()
	err      error
}

// parts returns the parts of the request, which has size bytes.
func (q *request) parts(size int) (list []part) {
	for i := range q.ix.Len() {
		r := q.ix.Record(i)
		if i == 0 || q.ix.Resource(r) != q.ix.Resource(q.ix.Record(i-1)) {
			list = append(list, part{from: i})
		}
		p := &list[len(list)-1]
		p.to = i + 1
		if r.NoID {
			p.refused++
		} else {
			p.records++
		}
		q.hasLog = q.hasLog || r.IsLog
	}
	for i := range list {
		list[i].size = int(int64(size) * int64(list[i].to-list[i].from) / int64(q.ix.Len()))
	}
	return list
}

// admit reserves room in the open files of parts. It adds up the parts of each file, and reserves in a fixed order
// of files, so that two requests never wait for each other.
func admit(ctx context.Context, parts []part) error {
	sizes, first := make(map[*file]int), make(map[*file]*part)
	var files []*file
	for i := range parts {
		x := parts[i].file
		if x == nil {
			continue
		}
		if first[x] == nil {
			first[x] = &parts[i]
			files = append(files, x)
		}
		sizes[x] += parts[i].size
	}
	slices.SortFunc(files, func(a, b *file) int { return cmp.Compare(a.key, b.key) })
	for _, x := range files {
		leave, err := inside.Of(x.rec).Admit(ctx, sizes[x])
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
		first[x].leave = leave
	}
	return nil
}

// maxFresh is the maximum number of files that one request may create. Further services of the request share one
// file, because a file costs much more than a record.
const (
	maxFresh     = 64
	manyServices = "many_services"
)

// openPart opens the file of p. The caller must call closePart later.
func (f *Files) openPart(q *request, p *part) error {
	p.err = q.r.Resource(&q.ix.Resources()[q.ix.Resource(q.ix.Record(p.from))], &p.resource)
	switch {
	case p.err != nil || p.records == 0:
	case f.folder == nil:
		p.file = f.one
	default:
		key, service := serviceOf(&p.resource)
		if !f.folder.has(key) {
			q.fresh++
			if q.fresh > maxFresh {
				key, service = manyServices, manyServices
			}
		}
		x, err := f.folder.acquire(key, service, time.Now())
		p.err = err
		if err == nil {
			p.file = x
		}
	}
	return p.err
}

// closePart undoes openPart. Further calls for the same part do nothing.
func (f *Files) closePart(p *part) {
	if p.leave != nil {
		p.leave()
	}
	if p.file != nil && f.folder != nil {
		f.folder.release(p.file)
	}
	p.file, p.leave = nil, nil
}

// record records the records of p. The parameter of is nil if all services share a file.
func (p *part) record(of *folder, q *request) (Result, error) {
	m, ok := p.file.mappers.Get().(*mapper)
	if !ok {
		batch := p.file.rec.Batch()
		m = &mapper{writer: writer{rec: p.file.rec, batch: batch, inside: inside.OfBatch(batch)}, file: p.file.number}
		if of != nil {
			m.dir = of.directory
		}
	}
	defer p.file.mappers.Put(m)
	m.inside.Discard()
	m.done, m.scopes, m.scope = Result{}, &q.scopes, otel.Scope{}
	if m.dir != nil { // so that the recorder knows of parents that are in other files
		for _, ids := range m.dir.popWaits(m.file) {
			m.inside.Elsewhere(format.SpanRef{TraceID: [16]byte(ids[:16]), SpanID: [8]byte(ids[16:])})
		}
	}
	var err error
	m.resource, err = m.rec.Resource(p.resource.Entry())
	if err != nil {
		m.done.Why = err // the records go below the root
	}
	for from := p.from; from < p.to; {
		to := from + 1
		for to < p.to && q.ix.SameGroup(q.ix.Record(from), q.ix.Record(to)) {
			to++
		}
		m.record(q, from, to)
		from = to
	}
	return m.End()
}

// serviceOf returns the key of a service's file, and the name of the service.
func serviceOf(r *otel.Resource) (key, name string) {
	var parts [4]string
	for i := range r.Attributes {
		a := &r.Attributes[i]
		if at := slices.Index(identity[:], a.Name); at >= 0 {
			v := a.Any()
			parts[at] = v.Display()
		}
	}
	if parts[1] != "" {
		parts[2], parts[3] = "", ""
	}
	var b []byte
	for _, p := range parts {
		b = strconv.AppendQuote(b, p)
	}
	sum := sha256.Sum256(b) // a hash, because the texts may be large
	return string(sum[:]), parts[0]
}

// identity lists the attributes of a resource that identify the service. If the instance id is known, the process
// and the host do not count.
var identity = [...]string{"service.name", "service.instance.id", "process.pid", "host.name"}
