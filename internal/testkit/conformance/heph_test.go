//go:build conformance

package conformance_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert/heph"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/entryjson"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// hephManifest names heph-rt as an optional dependency, so that Cargo downloads its source but does not build it.
// The source outside of the trace writer needs a compiler from 2022.
const hephManifest = `[package]
name = "entrace-heph"
version = "0.0.0"
edition = "2021"

[dependencies]
log = "0.4"
heph-rt = { version = "=0.4.1", optional = true }
`

// hephMain is a program that contains the unchanged source of heph-rt's trace writer. It uses the writer to write
// nested events from four threads at the same time.
const hephMain = `#![allow(dead_code)]
#[path = %q]
mod trace;
use trace::{finish, start};

fn main() {
    let path = std::env::args().nth(1).unwrap();
    let mut coordinator = trace::CoordinatorLog::open(path.as_ref()).unwrap();
    let whole = start(&Some(&mut coordinator));
    let threads: Vec<_> = (1..5u32).map(|id| {
        let mut log = Some(coordinator.new_stream(id));
        std::thread::spawn(move || {
            for i in 0..250u64 {
                let outer = start(&log);
                let middle = start(&log);
                let inner = start(&log);
                finish(log.as_mut(), inner, i %% 2, "inner", &[("i", &i), ("negative", &-5i32), ("half", &0.5f64), ("text", &"h\u{e9}llo")]);
                finish(log.as_mut(), middle, i %% 2, "middle", &[("texts", &["a", "bc"]), ("list", &[1u64, u64::MAX]), ("floats", &[1.5f64])]);
                finish(log.as_mut(), outer, i %% 2, "outer", &[]);
            }
        })
    }).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    finish(Some(&mut coordinator), whole, 0, "whole", &[("threads", &4u8)]);
}
`

// hephWriter builds the program around Heph's own writer, and returns the path of the program.
func hephWriter(t *testing.T) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	must(t, err)
	dir = filepath.Join(dir, "entrace-conformance", "heph")
	must(t, os.MkdirAll(filepath.Join(dir, "src"), 0o755))
	write := func(name, text string) {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	cargo := func(args ...string) []byte {
		cmd := exec.Command("cargo", append(args, "--manifest-path", filepath.Join(dir, "Cargo.toml"))...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("cargo %s: %v\n%s", args[0], err, errs.Bytes())
		}
		return out
	}
	write("Cargo.toml", hephManifest)
	write("src/main.rs", "fn main() {}")
	var metadata struct {
		Packages []struct {
			Name string
			Path string `json:"manifest_path"`
		}
	}
	must(t, json.Unmarshal(cargo("metadata", "--format-version=1", "--all-features"), &metadata))
	for _, p := range metadata.Packages {
		if p.Name == "heph-rt" {
			write("src/main.rs", fmt.Sprintf(hephMain, filepath.Join(filepath.Dir(p.Path), "src", "trace.rs")))
			cargo("build", "--quiet", "--release")
			return filepath.Join(dir, "target", "release", "entrace-heph")
		}
	}
	t.Fatal("there is no heph-rt")
	return ""
}

// TestHeph decodes a file of Heph's own writer. The tree must be correct, and each row must have the time and the
// attributes that its packet has.
func TestHeph(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "theirs.htf")
	if out, err := exec.Command(hephWriter(t), name).CombinedOutput(); err != nil {
		t.Fatalf("the writer: %v\n%s", err, out)
	}
	in := read(t, name)
	trace := filepath.Join(dir, "ours.iet")
	f, err := os.Create(trace)
	must(t, err)
	w, err := format.NewWriter(f, format.V2, format.IET, nil)
	must(t, err)
	must(t, errors.Join(heph.Decode(t.Context(), bytes.NewReader(in), w), w.Close(), f.Close()))
	file, err := format.Open(trace, nil)
	must(t, err)
	defer file.Close()
	expect.Equal(t, file.Len()-1, 1+4*250*3+1, "packets")
	wants := map[string]struct {
		above      string
		attributes []string
	}{
		"inner": {"middle", []string{`["half",{"Float":0.5}]`, `["negative",{"I64":-5}]`, `["text",{"String":"héllo"}]`}},
		"middle": {"outer", []string{
			`["floats",{"String":"[1.5]"}]`, `["list",{"String":"[1,18446744073709551615]"}]`, `["texts",{"String":"[\"a\",\"bc\"]"}]`,
		}},
		"outer": {"root", nil},
		"whole": {"root", []string{`["threads",{"U64":4}]`}},
	}
	found := make(map[string]int)
	err = file.Walk(0, func(id uint32, e *format.TraceEntry) error {
		want, ok := wants[e.Metadata.Name]
		if !ok {
			return nil
		}
		found[strings.Clone(e.Metadata.Name)]++
		up, err := file.Entry(e.Parent)
		if err == nil && up.Metadata.Name != want.above {
			err = fmt.Errorf("%s is below %s", e.Metadata.Name, up.Metadata.Name)
		}
		entry := string(entryjson.Append(nil, 0, e))
		for _, a := range want.attributes {
			expect.Has(t, entry, a, "entry %d", id)
		}
		return err
	})
	expect.OK(t, err)
	expect.Equal(t, fmt.Sprint(found), "map[inner:1000 middle:1000 outer:1000 whole:1]", "events")
}
