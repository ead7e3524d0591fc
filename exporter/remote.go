package exporter

import (
	"fmt"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/remote"
)

// WithEndpoint also sends what is recorded to tcp://host:port, tls://host:port or
// unix:///path, as OTEL_EXPORTER_ENTRACE_ENDPOINT does; see package remote. A nil
// o means defaults, and the token of the environment. It has no effect beside
// WithRecorder.
func WithEndpoint(target string, o *remote.SenderOptions) Option {
	return option(func(c *config) {
		c.endpoint = target
		if o != nil {
			c.sending = *o
		}
	})
}

// endpointEnvironment sets where to send to, if options left that open.
func (c *config) endpointEnvironment() {
	if s, ok := lookup(envToken); ok && c.sending.Token == "" {
		c.sending.Token = s
	}
	if s, ok := lookup(envEndpoint); ok && c.endpoint == "" {
		// The error is made here for its text, the sender where it is needed.
		if _, err := remote.NewSender(s, &c.sending); err != nil {
			report(fmt.Errorf("exporter: %s is ignored: %w", envEndpoint, err))
			return
		}
		c.endpoint = s
	}
}

// noFile reports whether a path says that there is to be no file.
func noFile(path string) bool { return path == "-" || strings.EqualFold(path, "none") }

// create opens the recorder of a path, with a sender if there is an endpoint.
func (c *config) create(path string, o *format.RecorderOptions) (*format.Recorder, error) {
	if c.endpoint != "" {
		so := c.sending
		if so.OnError == nil {
			so.OnError = report
		}
		s, err := remote.NewSender(c.endpoint, &so)
		if err != nil {
			return nil, err
		}
		o.Tee = s
	}
	switch {
	case !noFile(c.path):
		return format.Create(path, o)
	case o.Tee == nil:
		return format.Discard(), nil
	}
	return format.Stream(o), nil
}
