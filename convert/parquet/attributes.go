package parquet

import (
	"math/big"
	"strconv"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/view"
)

// attributes adds the attributes of the row to the entry, in their order.
func (d *decoder) attributes() error {
	if err := d.restOf(); err != nil {
		return err
	}
	order := d.texts[colOrder]
	if !d.valid[colOrder] {
		return d.unordered()
	}
	var at [numMaps]int
	rest := 0
	for _, letter := range []byte(order) {
		m := mapOf(letter)
		switch {
		case letter == inRest:
			if rest == len(d.rest.Attributes) {
				return d.bad(colRest, "fewer attributes than attribute_order lists")
			}
			d.entry.Attributes = append(d.entry.Attributes, d.rest.Attributes[rest])
			rest++
		case m >= 0:
			if at[m] == len(d.attrs[m]) {
				return d.bad(colOrder, "the row has too few attributes of kind "+strconv.QuoteRune(rune(letter)))
			}
			if err := d.typed(letter, &d.attrs[m][at[m]]); err != nil {
				return err
			}
			at[m]++
		default:
			if err := d.addOwn(letter); err != nil {
				return err
			}
		}
	}
	for m := range at {
		if at[m] < len(d.attrs[m]) {
			return d.bad(colOrder, "does not list all attributes of "+maps[m].name)
		}
	}
	if rest < len(d.rest.Attributes) {
		return d.bad(colOrder, "does not list all attributes of attribute_rest")
	}
	return nil
}

// restOf reads the attributes that no map can represent.
func (d *decoder) restOf() error {
	d.rest.Attributes = d.rest.Attributes[:0]
	if !d.valid[colRest] {
		return nil
	}
	v := format.StringValue(d.texts[colRest])
	n, err := format.DecodeTraceEntry(v.Bytes(), format.V1, &d.rest)
	if err != nil {
		return d.bad(colRest, err.Error())
	}
	if n < len(d.texts[colRest]) {
		return d.bad(colRest, "extra bytes after the attributes")
	}
	return nil
}

// mapOf returns the map for a letter of attribute_order, or -1 if there is none.
func mapOf(letter byte) int {
	switch letter {
	case asString:
		return mapString
	case asI64, asU64:
		return mapInt
	case asFloat:
		return mapFloat
	case asBool:
		return mapBool
	case asBytes:
		return mapBytes
	case asBigU64, asU128, asI128:
		return mapBig
	}
	return -1
}

// typed adds the attribute a, which was read from a map. Its letter says which type it has.
func (d *decoder) typed(letter byte, a *format.Attribute) error {
	v := a.Value
	switch letter {
	case asU64:
		n, ok := v.U64()
		if !ok {
			return d.bad(colOrder, "an unsigned number is negative")
		}
		v = format.U64Value(n)
	case asBigU64, asU128, asI128:
		var ok bool
		v, ok = parseBig(letter, v.Text())
		if !ok {
			return d.bad(colOrder, "a text in attributes_big is not a number of kind "+strconv.QuoteRune(rune(letter)))
		}
	}
	d.entry.Add(a.Name, v)
	return nil
}

// maxDigits is the maximum number of characters of a number of 128 bits.
const maxDigits = 40

var (
	minI128 = new(big.Int).Lsh(big.NewInt(-1), 127)
	mask64  = new(big.Int).SetUint64(1<<64 - 1)
)

// parseBig parses a decimal number.
func parseBig(letter byte, s string) (format.Value, bool) {
	if letter == asBigU64 {
		n, err := strconv.ParseUint(s, 10, 64)
		return format.U64Value(n), err == nil
	}
	if len(s) > maxDigits {
		return format.Value{}, false
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return format.Value{}, false
	}
	bits := 128
	if letter == asI128 {
		bits = 127
	}
	if n.BitLen() > bits && n.Cmp(minI128) != 0 || n.Sign() < 0 && letter == asU128 {
		return format.Value{}, false
	}
	lo := new(big.Int).And(n, mask64).Uint64()
	hi := new(big.Int).And(n.Rsh(n, 64), mask64).Uint64()
	if letter == asU128 {
		return format.U128Value(hi, lo), true
	}
	return format.I128Value(int64(hi), lo), true
}

// addOwn adds an attribute that has a column of its own.
func (d *decoder) addOwn(letter byte) error {
	col, name := colOrder, ""
	switch letter {
	case inTraceID:
		col, name = colTraceID, format.AttrTraceID
	case inSpanID:
		col, name = colSpanID, format.AttrSpanID
	case inParentSpanID:
		col, name = colParentSpanID, format.AttrParentSpanID
	case inTime, inTimeSigned:
		col, name = colTime, format.AttrTime
	case inDuration:
		col, name = colDuration, format.AttrDuration
	case inKind:
		col, name = colKind, mapping.AttrKind
	case inStatus:
		col, name = colStatus, mapping.AttrStatusCode
	}
	if name == "" {
		return d.bad(colOrder, "unknown letter "+strconv.QuoteRune(rune(letter)))
	}
	if !d.valid[col] {
		return d.bad(col, "null, but attribute_order lists the column")
	}
	v := format.StringValue(d.texts[col])
	switch n := d.numbers[col]; {
	case letter == inTimeSigned:
		v = format.I64Value(n)
	case (letter == inTime || letter == inDuration) && n < 0:
		return d.bad(col, "must not be negative")
	case letter == inTime || letter == inDuration:
		v = format.U64Value(uint64(n))
	}
	d.entry.Add(name, v)
	return nil
}

// unordered adds the attributes of a row without attribute_order, as other programs write it.
func (d *decoder) unordered() error {
	role := d.texts[colRole]
	plain := !d.valid[colRole] || role == view.RoleSpan.String()
	letters := make([]byte, 0, 16)
	add := func(letter byte, col int, ok bool) {
		if ok && d.valid[col] {
			letters = append(letters, letter)
		}
	}
	ids := plain || role == view.RoleLog.String()
	add(inTraceID, colTraceID, ids)
	add(inSpanID, colSpanID, ids)
	add(inParentSpanID, colParentSpanID, plain)
	if d.numbers[colTime] < 0 {
		add(inTimeSigned, colTime, true)
	} else {
		add(inTime, colTime, true)
	}
	add(inDuration, colDuration, true)
	add(inKind, colKind, d.texts[colKind] != kindInternal)
	add(inStatus, colStatus, d.texts[colStatus] != statusUnset)
	for _, letter := range letters {
		if err := d.addOwn(letter); err != nil {
			return err
		}
	}
	for m := range d.attrs {
		for i := range d.attrs[m] {
			if err := d.typed(guess(m, d.attrs[m][i].Value), &d.attrs[m][i]); err != nil {
				return err
			}
		}
	}
	d.entry.Attributes = append(d.entry.Attributes, d.rest.Attributes...)
	return nil
}

// guess returns the letter for an attribute that was read from map m.
func guess(m int, v format.Value) byte {
	if m != mapBig {
		return [numMaps]byte{mapString: asString, mapInt: asI64, mapFloat: asFloat, mapBool: asBool, mapBytes: asBytes}[m]
	}
	for _, letter := range []byte{asBigU64, asU128} {
		if _, ok := parseBig(letter, v.Text()); ok {
			return letter
		}
	}
	return asI128
}
