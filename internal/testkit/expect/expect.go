// Package expect has the comparisons of tests. A function that fails prints what was compared, from format and args as
// in fmt.Sprintf, then what the test got and what it wants. The test continues, unless the name of the function begins
// with Must. The package imports the standard library only, so tests of every package can use it.
package expect

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Equal compares two values with ==.
func Equal[T comparable](t testing.TB, got, want T, format string, args ...any) {
	if got != want {
		t.Helper()
		t.Error(report(got, want, format, args))
	}
}

// MustEqual is Equal, and ends the test if the values differ.
func MustEqual[T comparable](t testing.TB, got, want T, format string, args ...any) {
	if got != want {
		t.Helper()
		t.Fatal(report(got, want, format, args))
	}
}

// Slice compares the elements of two slices with ==. A nil slice is an empty one.
func Slice[T comparable](t testing.TB, got, want []T, format string, args ...any) {
	if !slices.Equal(got, want) {
		t.Helper()
		t.Error(report(got, want, format, args))
	}
}

// DeepEqual compares two values with reflect.DeepEqual.
func DeepEqual[T any](t testing.TB, got, want T, format string, args ...any) {
	if !reflect.DeepEqual(got, want) {
		t.Helper()
		t.Error(report(got, want, format, args))
	}
}

// Len compares the length of list with want, and prints the list if it has another length.
func Len[T any](t testing.TB, list []T, want int, format string, args ...any) {
	if len(list) != want {
		t.Helper()
		t.Errorf("%s: got %d, %s, want %d", fmt.Sprintf(format, args...), len(list), show(list), want)
	}
}

// MustLen is Len, and ends the test if the length differs.
func MustLen[T any](t testing.TB, list []T, want int, format string, args ...any) {
	if len(list) != want {
		t.Helper()
		t.Fatalf("%s: got %d, %s, want %d", fmt.Sprintf(format, args...), len(list), show(list), want)
	}
}

// Has looks for part in text.
func Has[T ~string | ~[]byte](t testing.TB, text T, part, format string, args ...any) {
	if !strings.Contains(string(text), part) {
		t.Helper()
		t.Errorf("%s: got %s, want %q in it", fmt.Sprintf(format, args...), show(string(text)), part)
	}
}

// Is compares an error as errors.Is does. A nil target wants no error.
func Is(t testing.TB, err, target error, format string, args ...any) {
	if !errors.Is(err, target) {
		t.Helper()
		t.Errorf("%s: got error %v, want %v", fmt.Sprintf(format, args...), err, target)
	}
}

// MustIs is Is, and ends the test if the error differs.
func MustIs(t testing.TB, err, target error, format string, args ...any) {
	if !errors.Is(err, target) {
		t.Helper()
		t.Fatalf("%s: got error %v, want %v", fmt.Sprintf(format, args...), err, target)
	}
}

// Says wants an error with part in its text.
func Says(t testing.TB, err error, part, format string, args ...any) {
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Helper()
		t.Errorf("%s: got error %v, want one that says %q", fmt.Sprintf(format, args...), err, part)
	}
}

// OK reports err if it is not nil.
func OK(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Error(err)
	}
}

// Must ends the test if err is not nil.
func Must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Err returns the error of a function that returns a value as well: expect.OK(t, expect.Err(os.Stat(name))).
func Err[T any](_ T, err error) error { return err }
