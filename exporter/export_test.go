package exporter

import "github.com/entrace-go/entrace/recorder"

// Recorder returns the recorder that spans go to.
func (t *target) Recorder() *recorder.Recorder { return t.recorder }
