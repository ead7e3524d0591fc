// Package receivedfiles manages the files in a folder of received traces: their names, and limits for their number
// and size.
package receivedfiles

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/internal/file/tracename"
)

// A Names makes the names of files. A name consists of the service, whose unsafe characters are replaced, the time
// and a counter.
type Names struct{ n atomic.Uint64 }

// Next returns the next name, without an extension. An unknown service is "".
func (n *Names) Next(service string) string {
	name := fmt.Sprintf("%s-%06d", time.Now().UTC().Format("20060102T150405.000Z"), n.n.Add(1))
	if service != "" {
		name = tracename.FileName(service) + "-" + name
	}
	return name
}
