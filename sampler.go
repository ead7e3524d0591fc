package entrace

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/file/env"
)

// RecordingSampler returns a sampler that decides as next does, with one exception: while the flight
// recorder c collects spans, spans that next drops are recorded, but not sampled. Exporters do not see
// these spans. [Setup] uses this sampler itself.
func RecordingSampler(next sdktrace.Sampler, c *control.Control) sdktrace.Sampler {
	if next == byDefault {
		return defaultSampler{c}
	}
	return sampler{next, c}
}

type sampler struct {
	next sdktrace.Sampler
	c    *control.Control
}

func (s sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	r := s.next.ShouldSample(p)
	if r.Decision == sdktrace.Drop && s.c.Enabled(control.Spans) {
		r.Decision = sdktrace.RecordOnly
	}
	return r
}

func (s sampler) Description() string {
	return fmt.Sprintf("RecordWhileWanted{%s}", s.next.Description())
}

// byDefault is the SDK's default sampler.
var byDefault = sdktrace.ParentBased(sdktrace.AlwaysSample())

// A defaultSampler makes the same decisions as sampler{byDefault, c}, in one function. Most programs
// use this sampler, and it runs for every span. Three samplers that call each other would take three
// times as long.
type defaultSampler struct{ c *control.Control }

func (s defaultSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	parent := trace.SpanContextFromContext(p.ParentContext)
	r := sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample, Tracestate: parent.TraceState()}
	if parent.IsValid() && !parent.IsSampled() {
		r.Decision = sdktrace.Drop
		if s.c.Enabled(control.Spans) {
			r.Decision = sdktrace.RecordOnly
		}
	}
	return r
}

func (s defaultSampler) Description() string { return sampler{byDefault, s.c}.Description() }

const (
	// WithSampler | `parentbased_always_on` | a sampler of OpenTelemetry's SDK; a flight recorder records all spans nevertheless.
	envSampler = "OTEL_TRACES_SAMPLER"

	// WithSampler | – | the argument of the sampler, such as `0.1`.
	envSamplerArg = "OTEL_TRACES_SAMPLER_ARG"
)

// environmentSampler returns the sampler that the SDK would make from the environment. The SDK has no function for
// this.
func environmentSampler() sdktrace.Sampler {
	s, ok := env.Lookup(envSampler)
	if !ok {
		return byDefault
	}
	switch strings.ToLower(s) {
	case "always_on":
		return sdktrace.AlwaysSample()
	case "always_off":
		return sdktrace.NeverSample()
	case "traceidratio":
		return ratio()
	case "parentbased_always_on":
		return byDefault
	case "parentbased_always_off":
		return sdktrace.ParentBased(sdktrace.NeverSample())
	case "parentbased_traceidratio":
		return sdktrace.ParentBased(ratio())
	}
	env.ReportValue(envSampler, s, fmt.Errorf("unknown sampler: must be always_on, always_off, traceidratio, or one of them with parentbased_ before it"))
	return byDefault
}

// ratio returns a sampler with the ratio in OTEL_TRACES_SAMPLER_ARG. The ratio is 1 if the variable is unset or not
// valid.
func ratio() sdktrace.Sampler {
	s := strings.TrimSpace(os.Getenv(envSamplerArg))
	if s == "" {
		return sdktrace.TraceIDRatioBased(1)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err == nil && (f < 0 || f > 1 || f != f) {
		err = strconv.ErrRange
	}
	if err != nil {
		env.ReportValue(envSamplerArg, s, err)
		f = 1
	}
	return sdktrace.TraceIDRatioBased(f)
}
