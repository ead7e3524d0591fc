package control

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/entrace-go/entrace/control/internal/traces"
	"github.com/entrace-go/entrace/control/tracedir"
	"github.com/entrace-go/entrace/internal/file/retain"
	"github.com/entrace-go/entrace/recorder"
)

// saveDead converts the files that dead processes left in the folder to traces.
func (c *Control) saveDead(keep Keep) {
	var saved []string
	c.report(c.dir.Recover(c.report, func(r *traces.Result, err error) {
		switch {
		case errors.Is(err, recorder.ErrJournalElsewhere): // the process of the ring may be alive
		case err != nil && r != nil:
			c.report(fmt.Errorf("recover: %w", err))
		default:
			c.report(err)
		}
		if r == nil || r.Output == "" {
			return
		}
		saved = append(saved, filepath.Base(r.Output))
		if r.Ring && c.o.OnCrash != nil {
			c.callbacks.offer(func() { c.o.OnCrash((*tracedir.Result)(r)) })
		}
	}))
	_, err := c.dir.Trim(retain.Keep(keep), time.Now(), saved...)
	c.report(err)
}
