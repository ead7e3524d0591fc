package perfetto_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"
)

// A field is a field of a message, decoded as far as this is possible without a schema.
type field struct {
	number uint64
	n      uint64 // the value, if it is a number
	b      []byte // the value, if it is a text or a message
}

// fields decodes a message.
func fields(b []byte) ([]field, error) {
	var all []field
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return all, io.ErrUnexpectedEOF
		}
		b = b[n:]
		f := field{number: key >> 3}
		switch key & 7 {
		case 0:
			f.n, n = binary.Uvarint(b)
			if n <= 0 {
				return all, io.ErrUnexpectedEOF
			}
		case 1:
			n = 8
			if len(b) < n {
				return all, io.ErrUnexpectedEOF
			}
			f.n = binary.LittleEndian.Uint64(b)
		case 2:
			size, m := binary.Uvarint(b)
			if m <= 0 || size > uint64(len(b)-m) {
				return all, io.ErrUnexpectedEOF
			}
			n = m + int(size)
			f.b = b[m:n]
		default:
			return all, fmt.Errorf("wire type %d", key&7)
		}
		b = b[n:]
		all = append(all, f)
	}
	return all, nil
}

// A message describes the fields of a message by number: "name" is a number, "name~" a float, "name$" a text, and
// "name:message" a message.
type message map[uint64]string

var messages = map[string]message{
	"Trace": {1: "packet:TracePacket"},
	"TracePacket": {
		6: "clock_snapshot:ClockSnapshot", 8: "timestamp", 10: "trusted_packet_sequence_id", 11: "track_event:TrackEvent",
		12: "interned_data:InternedData", 13: "sequence_flags", 60: "track_descriptor:TrackDescriptor", 87: "first_packet_on_sequence",
	},
	"ClockSnapshot": {1: "clocks:Clock"},
	"Clock":         {1: "clock_id", 2: "timestamp"},
	"TrackDescriptor": {
		1: "uuid", 2: "name$", 3: "process:ProcessDescriptor", 5: "parent_uuid", 11: "child_ordering", 12: "sibling_order_rank", 15: "sibling_merge_behavior",
	},
	"ProcessDescriptor": {1: "pid", 6: "process_name$", 8: "process_labels$"},
	"TrackEvent": {
		3: "category_iids", 4: "debug_annotations:DebugAnnotation", 9: "type", 10: "name_iid", 11: "track_uuid", 23: "name$",
		47: "flow_ids", 48: "terminating_flow_ids", 53: "correlation_id_str$",
	},
	"InternedData": {1: "event_categories:Interned", 2: "event_names:Interned", 3: "debug_annotation_names:Interned"},
	"Interned":     {1: "iid", 2: "name$"},
	"DebugAnnotation": {
		1: "name_iid", 2: "bool_value", 4: "int_value", 5: "double_value~", 6: "string_value$", 10: "name$",
		11: "dict_entries:DebugAnnotation", 12: "array_values:DebugAnnotation",
	},
}

// dump writes a message in protobuf's text format.
func dump(w *strings.Builder, kind string, b []byte, indent string) error {
	all, err := fields(b)
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	for _, f := range all {
		what, ok := messages[kind][f.number]
		if !ok {
			return fmt.Errorf("%s has no field %d", kind, f.number)
		}
		name, sub, isMessage := strings.Cut(what, ":")
		switch {
		case isMessage:
			fmt.Fprintf(w, "%s%s {\n", indent, name)
			if err := dump(w, sub, f.b, indent+"  "); err != nil {
				return err
			}
			fmt.Fprintf(w, "%s}\n", indent)
		case strings.HasSuffix(name, "$"):
			if !utf8.Valid(f.b) {
				return fmt.Errorf("%s.%s is %q", kind, name, f.b)
			}
			fmt.Fprintf(w, "%s%s: %q\n", indent, name[:len(name)-1], f.b)
		case strings.HasSuffix(name, "~"):
			fmt.Fprintf(w, "%s%s: %v\n", indent, name[:len(name)-1], math.Float64frombits(f.n))
		case name == "int_value":
			fmt.Fprintf(w, "%s%s: %d\n", indent, name, int64(f.n))
		default:
			fmt.Fprintf(w, "%s%s: %d\n", indent, name, f.n)
		}
	}
	return nil
}

// An event is a TrackEvent with the names to which it refers.
type event struct {
	kind, time, track uint64
	name, category    string
	flows, ends       []uint64
	args              []string // names
}

// events decodes a trace, and checks what must be true for every trace.
func events(b []byte) (all []event, tracks map[uint64]uint64, err error) {
	tracks = make(map[uint64]uint64) // the parent of each track
	names := [4]map[uint64]string{{}, {}, {}, {}}
	packets, err := fields(b)
	if err != nil {
		return nil, nil, err
	}
	for i, p := range packets {
		parts, err := fields(p.b)
		if err != nil {
			return nil, nil, err
		}
		number := func(n uint64) uint64 {
			for _, f := range parts {
				if f.number == n {
					return f.n
				}
			}
			return 0
		}
		if number(10) != 1 {
			return nil, nil, fmt.Errorf("packet %d is of sequence %d", i, number(10))
		}
		for _, f := range parts { // definitions of names come first, wherever they are in the packet
			if f.number != 12 {
				continue
			}
			interned, err := fields(f.b)
			if err != nil {
				return nil, nil, err
			}
			for _, f := range interned {
				one, err := fields(f.b)
				if err != nil || len(one) != 2 {
					return nil, nil, fmt.Errorf("packet %d: interned %v, %w", i, one, err)
				}
				if _, twice := names[f.number][one[0].n]; twice || one[0].n == 0 {
					return nil, nil, fmt.Errorf("packet %d: number %d is interned twice", i, one[0].n)
				}
				names[f.number][one[0].n] = string(one[1].b)
			}
		}
		for _, f := range parts {
			sub, err := fields(f.b)
			if err != nil && (f.number == 11 || f.number == 60) {
				return nil, nil, err
			}
			switch f.number {
			case 60:
				var id, parent uint64
				for _, f := range sub {
					switch f.number {
					case 1:
						id = f.n
					case 5:
						parent = f.n
					}
				}
				if _, twice := tracks[id]; twice {
					return nil, nil, fmt.Errorf("track %d comes twice", id)
				}
				tracks[id] = parent
			case 11:
				e := event{time: number(8)}
				for _, f := range sub {
					switch f.number {
					case 3:
						e.category = names[1][f.n]
					case 4:
						arg, err := fields(f.b)
						if err != nil || len(arg) < 2 {
							return nil, nil, fmt.Errorf("packet %d: annotation %v, %w", i, arg, err)
						}
						name := names[3][arg[0].n]
						if arg[0].number == 10 {
							name = string(arg[0].b)
						}
						e.args = append(e.args, name)
					case 9:
						e.kind = f.n
					case 10:
						name, ok := names[2][f.n]
						if !ok {
							return nil, nil, fmt.Errorf("packet %d: nothing has number %d", i, f.n)
						}
						e.name = name
					case 11:
						e.track = f.n
					case 23:
						e.name = string(f.b)
					case 47:
						e.flows = append(e.flows, f.n)
					case 48:
						e.ends = append(e.ends, f.n)
					}
				}
				all = append(all, e)
			}
		}
	}
	return all, tracks, nil
}
