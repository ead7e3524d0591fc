package main

import (
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/entryjson"
	"github.com/entrace-go/entrace/internal/text/jsontext"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// appendJSON appends a row in the form that commands print with --json. The keys and their order are
// always the same; a missing value is null.
func (p *rowPrinter) appendJSON(b []byte, r view.Row, e *format.TraceEntry) []byte {
	v := p.l.v
	flags := v.Flags(r)
	file, id := v.ID(r)
	begin := func(key string, ok bool) bool {
		b = append(append(append(b, ",\""...), key...), "\":"...)
		if !ok {
			b = append(b, "null"...)
		}
		return ok
	}
	text := func(key, s string, ok bool) {
		if begin(key, ok) {
			b = jsontext.AppendSafeString(b, s)
		}
	}
	number := func(key string, n int64, ok bool) {
		if begin(key, ok) {
			b = strconv.AppendInt(b, n, 10)
		}
	}
	span := flags.Role() == view.RoleSpan
	b = jsontext.AppendSafeString(append(b, `{"file":`...), p.l.Name(file))
	number("id", int64(id), true)
	text("role", flags.Role().String(), true)
	service := v.Service(r)
	text("service", service, service != "")
	text("name", e.Metadata.Name, true)
	text("message", e.Message.Value, e.Message.Valid)
	text("level", flags.Severity().String(), true)
	start, timed := v.Start(r)
	number("time_unix_nano", start, timed)
	took, ended := v.Duration(r)
	number("duration_nano", int64(took), ended)
	self, _ := v.SelfTime(r)
	number("self_nano", int64(self), ended)
	b = strconv.AppendBool(append(b, `,"open":`...), flags.Open())
	text("kind", flags.Kind(), span)
	text("status", flags.Status(), span)
	description, has := e.Attribute(mapping.AttrStatusDescription)
	text("status_description", description.Text(), has)
	text("target", e.Metadata.Target, e.Metadata.Target != "")
	source := e.Metadata.File.Value
	if e.Metadata.Line.Valid {
		source += ":" + strconv.FormatUint(uint64(e.Metadata.Line.Value), 10)
	}
	text("source", source, e.Metadata.File.Valid)
	ref := v.Ref(r)
	text("trace_id", hex.EncodeToString(ref.TraceID[:]), ref.TraceID != [16]byte{})
	text("span_id", hex.EncodeToString(ref.SpanID[:]), ref.SpanID != [8]byte{})
	parent := v.Parent(r)
	up := v.Ref(parent).SpanID
	if missing, is, _ := v.Missing(r); is {
		up = missing.SpanID
	}
	text("parent_span_id", hex.EncodeToString(up[:]), span && up != [8]byte{})
	text("parent", p.l.name(parent), r != 0)
	number("depth", int64(v.Depth(r)), true)
	b = append(b, `,"attributes":{`...)
	p.names.Reset()
	for i, a := range e.UserAttributes() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(jsontext.AppendSafeString(b, p.names.Add(a.Name)), ':')
		if a.Value.Kind() == format.KindBytes {
			b = jsontext.AppendSafeString(b, a.Value.String()) // with 0x
		} else {
			b = entryjson.AppendValue(b, a.Value)
		}
	}
	return append(b, "}}\n"...)
}

// answer prints an answer as one JSON object. The rows in it have the form that appendJSON writes. If indent is
// not empty, the object has several lines.
func (p *rowPrinter) answer(answer any, indent string) error {
	b, err := p.form().JSON(answer, indent)
	if err == nil {
		_, err = p.l.w.WriteString(safeJSON(b) + "\n")
	}
	return err
}

// form returns the Form of answers that are printed with --json.
func (p *rowPrinter) form() *analyze.Form {
	return &analyze.Form{
		Row: func(r view.Row) (any, error) {
			e, err := p.Read.Entry(r)
			if err != nil {
				return nil, err
			}
			return json.RawMessage(p.appendJSON(nil, r, e)), nil
		},
		Table: func(t *query.Table) (any, error) {
			lines := []json.RawMessage{}
			for _, line := range t.Lines {
				lines = append(lines, appendLineJSON(nil, t.Columns, line))
			}
			return lines, nil
		},
	}
}
