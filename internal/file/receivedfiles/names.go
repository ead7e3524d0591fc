// Package receivedfiles manages a folder of received traces. It makes the names of the files, and limits
// the number of the files and their size.
package receivedfiles

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/internal/file/tracename"
)

// A Names makes the names of files. A name consists of the service's name, with unsafe characters replaced,
// the time and a counter.
type Names struct{ n atomic.Uint64 }

// Next returns the next name, without an extension. service is "" if it is unknown.
func (n *Names) Next(service string) string {
	name := fmt.Sprintf("%s-%06d", time.Now().UTC().Format("20060102T150405.000Z"), n.n.Add(1))
	if service != "" {
		name = tracename.FileName(service) + "-" + name
	}
	return name
}
