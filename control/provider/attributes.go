package provider

import "github.com/entrace-go/entrace/format"

// target is the target of entries with values from several sources.
const target = "github.com/entrace-go/entrace/control/provider"

// attrInterval is the name of an attribute: the length in nanoseconds of the interval to which the deltas
// of an entry belong.
const attrInterval = "interval_nano"

func u64(name string, n uint64) format.Attribute {
	return format.Attribute{Name: name, Value: format.U64Value(n)}
}

func float(name string, f float64) format.Attribute {
	return format.Attribute{Name: name, Value: format.FloatValue(f)}
}

func text(name, s string) format.Attribute {
	return format.Attribute{Name: name, Value: format.StringValue(s)}
}
