package redact

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

// A Secret holds a value that must not be logged or printed, such as a password in a configuration. Loggers
// and package fmt show "[redacted]" instead. Reflection cannot read the value either, because it is in a
// closure. The zero Secret holds the zero value of T.
type Secret[T any] struct{ reveal func() T }

// NewSecret returns a Secret that holds v.
func NewSecret[T any](v T) Secret[T] { return Secret[T]{func() T { return v }} }

// Reveal returns the value.
func (s Secret[T]) Reveal() (v T) {
	if s.reveal == nil {
		return v
	}
	return s.reveal()
}

// String implements fmt.Stringer.
func (Secret[T]) String() string { return Mark }

// GoString implements fmt.GoStringer.
func (Secret[T]) GoString() string { return Mark }

// Format implements fmt.Formatter.
func (Secret[T]) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Mark) } // fmt reports errors itself

// LogValue implements slog.LogValuer.
func (Secret[T]) LogValue() slog.Value { return slog.StringValue(Mark) }

// MarshalText implements encoding.TextMarshaler.
func (Secret[T]) MarshalText() ([]byte, error) { return []byte(Mark), nil }

// UnmarshalJSON sets the secret to the value in a JSON text, so that a configuration can contain a Secret.
func (s *Secret[T]) UnmarshalJSON(b []byte) error {
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*s = NewSecret(v)
	return nil
}
