package httpapi

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/entrace-go/entrace/control/internal/traces"
)

// maxProblems is the maximum number of problems in one response.
const maxProblems = 10

// params holds the parameters in the query of a request, and their problems.
type params struct {
	values url.Values
	errs   []error
}

// paramsOf returns the parameters of a request. Each parameter that is not in known is a problem.
func paramsOf(r *http.Request, known ...string) *params {
	p := &params{}
	var err error
	p.values, err = url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		p.errs = append(p.errs, fmt.Errorf("read the query: %w", err))
	}
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		switch {
		case !slices.Contains(known, name):
			p.bad(name, "is unknown: known parameters are ["+strings.Join(known, " ")+"]")
		case len(p.values[name]) > 1:
			p.bad(name, "is used twice")
		}
	}
	return p
}

// noBody adds a problem if the request has a body, because the handler would ignore it.
func (p *params) noBody(r *http.Request) *params {
	n := r.ContentLength
	if n < 0 && r.Body != nil {
		read, _ := io.ReadFull(r.Body, make([]byte, 1)) // on an error, the client is gone
		n = int64(read)
	}
	if n > 0 {
		p.errs = append(p.errs, errors.New("the request must not have a body: put the parameters into the query of the URL"))
	}
	return p
}

func (p *params) bad(name, problem string) {
	if len(p.errs) < maxProblems {
		p.errs = append(p.errs, fmt.Errorf("parameter %.100q %s", name, problem))
	}
}

func (p *params) duration(name string) time.Duration {
	if !p.values.Has(name) {
		return 0
	}
	d, err := time.ParseDuration(p.values.Get(name))
	if err != nil || d <= 0 {
		p.bad(name, "must be a duration above 0, such as 30s")
	}
	return d
}

func (p *params) bool(name string) bool {
	if !p.values.Has(name) {
		return false
	}
	v, err := strconv.ParseBool(p.values.Get(name))
	if err != nil {
		p.bad(name, "must be 1 or 0")
	}
	return v
}

func (p *params) name(name string) string {
	v := p.values.Get(name)
	if p.values.Has(name) && traces.CheckName(v) != nil {
		p.bad(name, "is not a valid name of a trace")
	}
	return v
}

func (p *params) reason() string {
	v := p.values.Get("reason")
	if len(v) > maxReason || !utf8.ValidString(v) {
		p.bad("reason", fmt.Sprintf("must be UTF-8 text of at most %d bytes", maxReason))
	}
	return v
}

func (p *params) check() error {
	if len(p.errs) == 0 {
		return nil
	}
	return &statusError{http.StatusBadRequest, errors.Join(p.errs...).Error()}
}
