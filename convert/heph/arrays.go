package heph

import (
	"strconv"
	"unicode/utf8"

	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/text/jsontext"
)

// arrayText returns the text of an array in an entry: JSON, or OTLP/JSON if JSON cannot represent a value.
func arrayText(v value) (string, otel.Encoding) {
	b := append(make([]byte, 0, 2+len(v.text)), '[')
	ok := true
	for item := range v.Each {
		if len(b) > 1 {
			b = append(b, ',')
		}
		switch item.typ {
		case kindU64:
			b = strconv.AppendUint(b, item.num, 10)
		case kindI64:
			b = strconv.AppendInt(b, item.I64(), 10)
		case kindF64:
			b, ok = jsontext.AppendFloat(b, item.F64())
		default:
			ok = utf8.ValidString(item.text)
			b = jsontext.AppendString(b, item.text)
		}
		if !ok {
			break
		}
	}
	if ok {
		return wire.View(append(b, ']')), otel.JSON
	}
	list := otel.Any{Kind: otel.List, List: make([]otel.Any, 0, v.Len())}
	for item := range v.Each {
		a := otel.TextAny(item.text)
		if item.typ == kindF64 {
			a = otel.Any{Kind: otel.Float, Float: item.F64()}
		}
		list.List = append(list.List, a)
	}
	return string(otel.AppendAnyValue(nil, &list)), otel.AnyValue
}
