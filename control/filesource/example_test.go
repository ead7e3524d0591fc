package filesource_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/filesource"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "control.yaml")
	if err := os.WriteFile(file, []byte("id: first\ndir: /tmp/traces\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	source := filesource.New(file, nil)
	c, err := source.Config()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.ID, c.Ring.Always)
	stop, err := source.Watch(func(c *control.Config, err error) { fmt.Println(c, err) })
	if err != nil {
		fmt.Println(err)
		return
	}
	stop()
	// Output: first spans,logs,runtime.metrics,gc
}

func ExampleParse() {
	_, err := filesource.Parse("control.yaml", []byte(`
dir: /var/lib/myapp/traces
traces:
  - name: errors
    on: [{trigger: log, levl: error}]
    window: 30 seconds
    providers: [spans, logs]
`))
	fmt.Println(err)
	// Output:
	// control.yaml:5:25: traces[0].on[0]: unknown key "levl": known keys are trigger, key, level, longer_than, count, within
	// control.yaml:6:13: traces[0].window: "30 seconds" is not a duration such as 250ms, 1m30s, 72h or 7d
}
