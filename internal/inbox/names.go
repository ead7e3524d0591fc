// Package inbox is a folder of traces that were received from others: how they are named,
// and bounds for their number and their bytes.
package inbox

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/internal/env"
)

// Names makes the names of files, out of nothing but the time, a counter and what is safe of
// the service's name.
type Names struct{ n atomic.Uint64 }

// Next returns the next name, without an extension. The service may be unknown, "".
func (n *Names) Next(service string) string {
	name := fmt.Sprintf("%s-%06d", time.Now().UTC().Format("20060102T150405.000Z"), n.n.Add(1))
	if service != "" {
		name = env.FileName(service) + "-" + name
	}
	return name
}
