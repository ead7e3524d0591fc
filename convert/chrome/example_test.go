package chrome_test

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/entrace-go/entrace/convert/chrome"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

func Example() {
	if err := example("testdata/timeless.iet"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"displayTimeUnit":"ns","otherData":{"producer":"entrace","times":"made"},"traceEvents":[
	// {"ph":"M","name":"process_name","pid":1,"args":{"name":"no resource"}},
	// {"ph":"M","name":"process_sort_index","pid":1,"args":{"sort_index":1}},
	// {"ph":"M","name":"thread_name","pid":1,"tid":1,"args":{"name":"lane 1"}},
	// {"ph":"M","name":"thread_sort_index","pid":1,"tid":1,"args":{"sort_index":1}},
	// {"ph":"X","name":"main","cat":"entry","ts":0.000,"dur":6.000,"pid":1,"tid":1,"args":{"scope":"app","level":"INFO"}},
}

func example(name string) error {
	f, err := format.Open(name, nil)
	if err != nil {
		return err
	}
	defer f.Close()
	v, err := view.New(context.Background(), []*format.File{f}, nil)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := chrome.Encode(context.Background(), &b, v); err != nil {
		return err
	}
	for _, line := range bytes.SplitAfter(b.Bytes(), []byte("\n"))[:6] {
		os.Stdout.Write(line)
	}
	return nil
}
