package exporter

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/filesource"
	"github.com/entrace-go/entrace/control/provider"
)

const (
	envControl       = "OTEL_EXPORTER_ENTRACE_CONTROL"
	envControlConfig = envControl + "_CONFIG"
)

// defaultTraces is the folder of the traces of a control.
const defaultTraces = "{service}-traces"

// controlled returns the control to use, nil for none, and whether it was made
// here.
func (c *config) controlled(res *resource.Resource) (ctl *control.Control, ours bool, err error) {
	if c.control != nil {
		c.mustBeLive()
		return c.control, false, nil
	}
	mode, on := lookup(envControl)
	path, file := lookup(envControlConfig)
	if !on && !file || strings.EqualFold(mode, "off") || c.recorder != nil {
		return nil, false, nil
	}
	service := serviceName(res)
	dir := filepath.Clean(expand(defaultTraces, service))
	o := &control.Options{
		Source: control.Env(envControl, dir), Providers: provider.All(), Service: service,
		Version: c.recording.Version, OnError: func(err error) { report(fmt.Errorf("exporter: %w", err)) },
	}
	if file {
		def := filesource.Defaults()
		def.Dir = dir
		o.Source = filesource.New(path, &filesource.Options{Defaults: def})
	}
	if c.control, err = control.New(o); err != nil {
		if file {
			err = fmt.Errorf("%s=%q: %w", envControlConfig, path, err)
		}
		return nil, false, fmt.Errorf("exporter: %w", err)
	}
	c.mustBeLive()
	return c.control, true, nil
}

// mustBeLive tells of what a control leaves no room for.
func (c *config) mustBeLive() {
	if c.mode == ModeBatch {
		reportValue(envMode, string(c.mode), errors.New("a control records live"))
	}
	if c.endpoint != "" {
		reportValue(envEndpoint, c.endpoint, errors.New("a control sends nothing"))
	}
}
