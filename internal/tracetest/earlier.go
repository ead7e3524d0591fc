package tracetest

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
)

// Unpack writes the files of testdata/earlier that end with .gz to a folder, without that. They are
// what a process of commit 2137d15 left when it was killed, and beside them is what that commit
// made of them.
func Unpack(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob("testdata/earlier/*.gz")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d files, %v", len(names), err)
	}
	for _, name := range names {
		if err := unpack(name, filepath.Join(dir, strings.TrimSuffix(filepath.Base(name), ".gz"))); err != nil {
			t.Fatal(err)
		}
	}
}

func unpack(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

// Entries returns a line for each entry of a trace file, without times, levels and messages.
func Entries(t *testing.T, name string) string {
	t.Helper()
	f, err := format.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b strings.Builder
	for i := range f.Len() {
		e, err := f.Entry(uint32(i))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%d below %d: %s", i, e.Parent, e.Metadata.Name)
		for _, a := range e.Attributes {
			if a.Name != format.AttrTime {
				fmt.Fprintf(&b, " %s=%s", a.Name, strings.Trim(fmt.Sprint(a.Value), "{}"))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
