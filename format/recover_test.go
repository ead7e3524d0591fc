package format_test

import (
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
)

func init() {
	format.Recover = func(name, output string) (*format.Recovered, error) {
		r, err := recorder.Recover(name, output)
		if r == nil {
			return nil, err
		}
		return &format.Recovered{Report: r.Report, Pending: r.Pending, Output: r.Output, Broken: r.Broken}, err
	}
}
