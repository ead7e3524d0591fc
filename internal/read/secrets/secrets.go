// Package secrets replaces secrets in the entries of an existing file. A recorder replaces secrets before it writes
// an entry, in package record. Both packages pass the same names and texts to package redact.
package secrets

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/execbatch"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/redact"
)

// Replace replaces the secrets in e according to the policy of r. It changes e and its Attributes. If found is not
// nil, Replace calls it for each changed field, such as "message" or "attribute db.password". Replace reports
// whether any field has changed.
func Replace(r *redact.Redactor, e *format.TraceEntry, found func(field string)) bool {
	x := replacer{r: r, e: e, found: found, renamed: make(map[string]string)}
	x.text("name", &e.Metadata.Name)
	x.text("target", &e.Metadata.Target)
	x.text("module path", &e.Metadata.ModulePath.Value)
	x.text("file", &e.Metadata.File.Value)
	x.text("message", &e.Message.Value)
	isJSON := make(map[string]bool)
	for i := range e.Attributes {
		if a := &e.Attributes[i]; a.Name == mapping.AttrJSON || a.Name == mapping.AttrAnyValue {
			maps.Copy(isJSON, otel.Names(a.Value))
		}
	}
	for i := range e.Attributes {
		x.attribute(&e.Attributes[i], isJSON)
	}
	if len(x.renamed) > 0 {
		kept := e.Attributes[:0]
		for _, a := range e.Attributes {
			if x.list(&a) {
				kept = append(kept, a)
			}
		}
		e.Attributes = kept
	}
	return x.changed
}

// A replacer replaces the secrets of one entry.
type replacer struct {
	r       *redact.Redactor
	e       *format.TraceEntry
	found   func(field string)
	changed bool
	// renamed has the new names of attributes, because the entry may have lists with the old names. The name is ""
	// if the value of the attribute is no longer a JSON text.
	renamed map[string]string
}

func (x *replacer) note(field string) {
	x.changed = true
	if x.found != nil {
		x.found(field)
	}
}

func (x *replacer) text(field string, s *string) {
	if t := x.r.Text(*s); t != *s {
		*s = t
		x.note(field)
	}
}

// attribute replaces the secrets of an attribute.
func (x *replacer) attribute(a *format.Attribute, isJSON map[string]bool) {
	switch a.Name {
	case mapping.AttrJSON, mapping.AttrAnyValue, mapping.AttrDurations, format.AttrTraceID, format.AttrSpanID, format.AttrParentSpanID,
		mapping.AttrLinkTraceID, mapping.AttrLinkSpanID:
		return
	}
	stored, safe := a.Name, x.r.Text(a.Name)
	if kind := a.Value.Kind(); kind == format.KindString || kind == format.KindBytes {
		key := userKey(stored)
		verdict, was := x.r.Key(key), a.Value.Text()
		var now string
		isText := false
		var err error
		isTrace := kind == format.KindBytes && verdict != redact.Replace && execbatch.IsTrace(was)
		if isTrace {
			now, err = execbatch.Redact(x.r, was)
		}
		switch {
		case isTrace && err == nil:
		case isJSON[stored]:
			now, isText = x.r.JSON(verdict, key, was)
		default:
			now = x.r.Value(verdict, key, was)
		}
		if now != was {
			if kind == format.KindBytes && verdict != redact.Replace {
				a.Value = format.BytesValue([]byte(now))
			} else {
				a.Value = format.StringValue(now)
			}
			if isText {
				x.renamed[stored] = ""
			}
			x.note("attribute " + safe)
		}
	}
	if safe != stored {
		a.Name = safe
		if _, dropped := x.renamed[stored]; !dropped {
			x.renamed[stored] = safe
		}
		x.note("the name of attribute " + safe)
	}
}

// userKey returns the name under which the user recorded a stored attribute.
func userKey(stored string) string {
	name, isUser := mapping.UserName(stored)
	if !isUser {
		return stored
	}
	if i := strings.LastIndexByte(name, '#'); i > 0 && strings.Trim(name[i+1:], "0123456789") == "" {
		name = name[:i] // remove the number of a repeated name
	}
	return name
}

// list replaces names in the attribute a if its value is a list of names, and does not change other attributes. It
// returns false if the list is empty and can be removed.
func (x *replacer) list(a *format.Attribute) bool {
	if a.Name != mapping.AttrJSON && a.Name != mapping.AttrAnyValue && a.Name != mapping.AttrDurations {
		return true
	}
	var names []string
	if json.Unmarshal(a.Value.Bytes(), &names) != nil {
		return true
	}
	kept := names[:0]
	for _, name := range names {
		now, renamed := x.renamed[name]
		switch {
		case !renamed:
			kept = append(kept, name)
		case now != "":
			kept = append(kept, now)
		}
	}
	b, _ := json.Marshal(kept) // err is nil, because strings can be encoded
	a.Value = format.StringValue(string(b))
	return len(kept) > 0
}
