package view

import (
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/columns"
)

// sharedSpans holds the spans that a client and a server share. With B3 headers, each of them records a half of the
// span, with the same ids.
type sharedSpans struct {
	clients map[Row]Row        // the client's half of each server's half
	servers map[sharedHalf]Row // the first server's half in each service
}

// A sharedHalf identifies a service's half of a shared span. The row client has the client's half.
type sharedHalf struct {
	client  Row
	service string
}

// kind returns the kind of the span at row r. It returns 0 for a row of another role, or without a trace.
func (b *builder) kind(r Row) otel.SpanKind {
	f := b.flags(r)
	if f.Role() != RoleSpan || b.trace(r) == 0 {
		return 0
	}
	return otel.SpanKind(columns.Kind(uint16(f)))
}

// findShared finds the shared spans, if a client span or a server span is among the row was and the later rows.
func (b *builder) findShared(was uint32) error {
	servers, changed := 0, false
	for r := range Row(b.n) {
		kind := b.kind(r)
		changed = changed || uint32(r) >= was && (kind == otel.KindServer || kind == otel.KindClient)
		if kind == otel.KindServer {
			servers++
		}
	}
	if servers == 0 || !changed {
		return nil
	}
	shared := wants{seen: make([]uint64, servers/8+1)} // used only as a filter of the ids of server spans
	for r := range Row(b.n) {
		if b.kind(r) == otel.KindServer {
			shared.see(b.trace(r), uint64(b.text(r)))
		}
	}
	var clients wants
	// In this direction, the first of several client spans is added last, so the lookup finds it.
	for r := Row(b.n) - 1; r > 0; r-- {
		if b.kind(r) != otel.KindClient || !shared.wanted(b.trace(r), b.text(r)) {
			continue
		}
		id, err := b.spanID(r)
		if err != nil {
			return err
		}
		clients.add(want{span: id, row: r}, b.trace(r))
	}
	if len(clients.all) == 0 {
		return nil
	}
	b.halved.clients, b.halved.servers = make(map[Row]Row), make(map[sharedHalf]Row)
	for r := range Row(b.n) {
		if b.kind(r) != otel.KindServer || !clients.wanted(b.trace(r), b.text(r)) {
			continue
		}
		id, err := b.spanID(r)
		if err != nil {
			return err
		}
		if s := clients.slot(b.trace(r), id); s.first != 0 {
			client := clients.all[s.first-1].row
			b.halved.clients[r] = client
			of := sharedHalf{client, b.serviceOf(b.resource(r))}
			if _, known := b.halved.servers[of]; !known {
				b.halved.servers[of] = r
			}
		}
	}
	return nil
}

// belowShared returns moves of two kinds. A server's half moves below its client's half. A span or log record below a
// shared span moves below the half of its own service, or is not moved if neither half belongs to its service.
func (b *builder) belowShared() (below []move) {
	if len(b.halved.clients) == 0 {
		return nil
	}
	for r := range Row(b.n) {
		if role := b.flags(r).Role(); role != RoleSpan && role != RoleLog {
			continue
		}
		if client, is := b.halved.clients[r]; is {
			below = append(below, move{want{row: r}, client})
			continue
		}
		up := b.parent(r)
		client, ofServer := up, false
		switch b.kind(up) {
		case otel.KindServer:
			client, ofServer = b.halved.clients[up]
		case otel.KindClient:
		default:
			continue
		}
		service := b.serviceOf(b.resource(r))
		if ofServer && service == b.serviceOf(b.resource(up)) {
			continue
		}
		if to, known := b.halved.servers[sharedHalf{client, service}]; known {
			below = append(below, move{want{row: r}, to})
		} else if ofServer && service == b.serviceOf(b.resource(client)) {
			below = append(below, move{want{row: r}, client})
		}
	}
	return below
}
