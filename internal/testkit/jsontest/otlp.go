package jsontest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// OTLP returns the spans and log records in lines of OTLP's JSON, each as a text that includes its resource and
// scope. The texts are sorted. They are normalized, so that differences without a meaning do not count: the order
// of attributes, and empty values, which some encoders omit.
func OTLP(t testing.TB, lines []byte) (all []string) {
	t.Helper()
	for d := json.NewDecoder(bytes.NewReader(lines)); d.More(); {
		var root map[string]any
		expect.Must(t, d.Decode(&root))
		normalize(root)
		for _, names := range [][3]string{{"resourceSpans", "scopeSpans", "spans"}, {"resourceLogs", "scopeLogs", "logRecords"}} {
			for _, holder := range objects(root[names[0]]) {
				for _, scope := range objects(holder[names[1]]) {
					for _, item := range objects(scope[names[2]]) {
						b, err := json.Marshal([]any{names[2], holder["resource"], holder["schemaUrl"], scope["scope"], scope["schemaUrl"], item})
						expect.Must(t, err)
						all = append(all, string(b))
					}
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

func objects(v any) (all []map[string]any) {
	list, _ := v.([]any)
	for _, item := range list {
		object, _ := item.(map[string]any)
		all = append(all, object)
	}
	return all
}

func normalize(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			normalize(item)
		}
	case map[string]any:
		for key, item := range v {
			list, isList := item.([]any)
			if isList && key == "attributes" {
				slices.SortStableFunc(list, func(a, b any) int {
					x, _ := a.(map[string]any)["key"].(string)
					y, _ := b.(map[string]any)["key"].(string)
					return cmp.Compare(x, y)
				})
			}
			normalize(item)
			object, isObject := item.(map[string]any)
			if key == "key" && item == "" || key == "values" && isList && len(list) == 0 || key == "body" && isObject && len(object) == 0 {
				delete(v, key)
			}
		}
	}
}
