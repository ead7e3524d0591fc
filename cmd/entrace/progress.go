package main

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

// A progress shows a progress bar for long work. It does so only on a terminal.
type progress struct {
	bar   *progressbar.ProgressBar
	begun time.Time
	c     *console
	rows  bool // the bar counts rows, not bytes
}

func (c *console) progress() *progress { return &progress{begun: time.Now(), c: c} }

// showAfter is the time after which the bar is shown.
const showAfter = time.Second

func (p *progress) update(done, total int64) {
	if p.bar == nil {
		if time.Since(p.begun) < showAfter || !isTerminal(p.c.err) {
			return
		}
		if total == 0 {
			total = -1
		}
		p.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowBytes(!p.rows),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())
	}
	_ = p.bar.Set64(done) // a bar that cannot be drawn is no reason to stop
}

func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish()
		p.bar = nil
	}
}
