package heph

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/view"
)

// sameContent checks that v, which was decoded from in, has an entry for each packet that can be read, and that the
// entry has the whole content of the packet.
func sameContent(t *testing.T, in []byte, v *view.View) {
	t.Helper()
	entries := make(map[int64]*format.TraceEntry)
	converttest.Must(t, v.Files()[0].Walk(1, func(_ uint32, e *format.TraceEntry) error {
		entries[int64(number(e, attrHephPacket))] = e.Clone()
		return nil
	}))
	var epochs []uint64
	for r := (&reader{b: in}); r.more(); {
		if p, err := r.next(); err == nil && p.Metadata {
			if nano, ok := p.Option.Epoch(); ok {
				epochs = append(epochs, nano)
			}
		}
	}
	packets, before := 0, 0
	for r := (&reader{b: in}); r.more(); {
		p, err := r.next()
		if err != nil {
			continue
		}
		packets++
		e := entries[p.Number]
		switch {
		case e == nil:
			t.Fatalf("packet %d has no entry", p.Number)
		case p.Metadata:
			if _, ok := p.Option.Epoch(); ok {
				before++
			}
			name, _ := e.Attribute(attrHephName)
			value, _ := e.Attribute(attrHephValue)
			expect.Equal(t, name.String()+" "+string(value.Bytes()), textValue(p.Option.Name).String()+" "+string(p.Option.Value), "option in packet %d", p.Number)
		default:
			epoch := uint64(0)
			if len(epochs) > 0 {
				epoch = epochs[max(before-1, 0)]
			}
			var ids originIDs
			for i := range p.Event.Attributes {
				ids.add(&p.Event.Attributes[i])
			}
			expect.Equal(t, entryContent(e, epoch, ids), eventContent(&p.Event), "event in packet %d", p.Number)
		}
	}
	expect.Equal(t, len(entries), packets, "entries")
}

// number returns an attribute that is a U64, or 0.
func number(e *format.TraceEntry, name string) uint64 {
	v, _ := e.Attribute(name)
	n, _ := v.U64()
	return n
}

// content returns the fields of an event, and its attributes sorted by name, as a text.
func content(ev *event, attributes []string) string {
	slices.Sort(attributes)
	return fmt.Sprintf("%d/%d #%d %d-%d %q\n", ev.StreamID, ev.SubstreamID, ev.Counter, ev.Start, ev.End, ev.Description) + strings.Join(attributes, "\n")
}

// eventContent returns the content of a packet.
func eventContent(ev *event) string {
	var attributes []string
	for i := range ev.Attributes {
		a := &ev.Attributes[i]
		text := fmt.Sprintf("%q %s", valid(a.Name), scalar(a.Value))
		if a.Value.typ&kindArray != 0 {
			text = fmt.Sprintf("%q [", valid(a.Name))
			for item := range a.Value.Each {
				text += scalar(item) + ","
			}
		}
		attributes = append(attributes, text)
	}
	return content(ev, attributes)
}

// scalar returns a number or text of a packet as a text.
func scalar(v value) string {
	switch v.typ {
	case kindF64:
		return fmt.Sprint("float ", v.F64())
	case kindI64:
		return fmt.Sprint("int ", v.I64())
	case kindU64:
		return fmt.Sprint("int ", v.num)
	}
	return fmt.Sprintf("%q", v.text)
}

// entryContent returns the content of the packet from which e was made. The packet has the given ids.
func entryContent(e *format.TraceEntry, epoch uint64, ids originIDs) string {
	ev := event{
		StreamID: uint32(number(e, attrHephStream)), Counter: uint32(number(e, attrHephCounter)), SubstreamID: number(e, attrHephSubstream),
		Start: number(e, format.AttrTime) - epoch, Description: e.Metadata.Name,
	}
	ev.End = ev.Start + number(e, format.AttrDuration)
	if skew, ok := e.Attribute(mapping.AttrClockSkew); ok {
		n, _ := skew.I64()
		ev.End = ev.Start + uint64(n)
	}
	if _, ok := e.Attribute(attrHephStart); ok {
		ev.Start, ev.End = number(e, attrHephStart), number(e, attrHephEnd)
	}
	if text, ok := e.Attribute(attrHephText); ok {
		ev.Description = string(text.Bytes())
	}
	list, _ := e.Attribute(mapping.AttrJSON)
	jsons := otel.Names(list)
	list, _ = e.Attribute(mapping.AttrAnyValue)
	anyValues := otel.Names(list)
	var attributes []string
	for i := range e.Attributes {
		a := &e.Attributes[i]
		name := a.Name
		switch name {
		case format.AttrTime, format.AttrDuration, mapping.AttrClockSkew, mapping.AttrJSON, mapping.AttrAnyValue, otel.AttrMadeIDs:
			continue
		}
		if name == format.AttrTraceID && ids.trace == "" || name == format.AttrSpanID && ids.span == "" {
			continue // the packet has none
		}
		name, escaped := strings.CutPrefix(name, escapeHeph)
		if !escaped && strings.HasPrefix(name, prefixHeph) {
			continue
		}
		name = strings.TrimPrefix(name, escapeOTel)
		text := entryScalar(a.Value)
		switch {
		case jsons[a.Name]:
			text = jsonItems(a.Value.Text())
		case anyValues[a.Name]:
			field, items := otel.Attribute{Value: a.Value, Encoding: otel.AnyValue}, "["
			for _, item := range field.Any().List {
				if item.Kind == otel.Float {
					items += fmt.Sprint("float ", item.Float, ",")
				} else {
					items += fmt.Sprintf("%q,", item.Text)
				}
			}
			text = items
		}
		attributes = append(attributes, fmt.Sprintf("%q %s", name, text))
	}
	return content(&ev, attributes)
}

// entryScalar is like [scalar], for a value of an entry.
func entryScalar(v format.Value) string {
	switch v.Kind() {
	case format.KindString:
		return fmt.Sprintf("%q", v.Text())
	case format.KindBytes:
		return fmt.Sprintf("%q", v.Bytes())
	case format.KindFloat:
		return fmt.Sprint("float ", v.Float())
	}
	return "int " + string(v.AppendDecimal(nil))
}

// jsonItems returns the items of a JSON array, each as [scalar] writes it.
func jsonItems(array string) string {
	d := json.NewDecoder(strings.NewReader(array))
	d.UseNumber()
	var items []any
	if err := d.Decode(&items); err != nil {
		return err.Error()
	}
	var text strings.Builder
	text.WriteString("[")
	for _, item := range items {
		n, ok := item.(json.Number)
		f, _ := n.Float64()
		switch {
		case !ok:
			fmt.Fprintf(&text, "%q,", item)
		case strings.ContainsAny(n.String(), ".e"):
			fmt.Fprint(&text, "float ", f, ",")
		default:
			text.WriteString("int " + n.String() + ",")
		}
	}
	return text.String()
}
