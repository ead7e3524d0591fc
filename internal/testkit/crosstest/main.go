// Command crosstest records a trace and then kills itself. On every system, the smoke test runs it and then checks
// the files that it leaves. The only argument is the folder to record in.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: crosstest FOLDER")
	}
	if err := record(os.Args[1]); err != nil {
		log.Fatal(err)
	}
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		log.Fatal(err)
	}
	select {} // wait until the process is dead
}

// record fills two files. It does not end its span, and the last records are only in the journal. It uses invented times,
// so that the files are equal on all systems.
func record(dir string) error {
	rec, err := recorder.Create(filepath.Join(dir, "app.et"), &recorder.Options{BufferDir: dir, MaxFileEntries: 64})
	if err != nil {
		return err
	}
	if d, err := rec.Durability(); d != recorder.DurabilityProcess {
		return fmt.Errorf("durability %v: %w", d, err)
	}
	start := time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)
	ref := format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{2}}
	named := func(name string) format.Metadata { return format.Metadata{Name: name, Level: format.LevelInfo} }
	b := rec.Batch()
	b.Span(&recorder.Span{Ref: ref, Time: start.UnixNano(), Open: true})
	b.Entry(&format.TraceEntry{Message: format.Some("the open span"), Metadata: named("span")})
	if err := b.Write(); err != nil {
		return err
	}
	for i := range 100 {
		m := named("event")
		b := rec.Batch()
		b.Log(ref, start.Add(time.Duration(i)*time.Millisecond).UnixNano())
		b.Begin(format.Some(fmt.Sprintf("record %d", i)), &m)
		b.Attr("number", format.I64Value(int64(i)))
		b.End()
		if err := b.Write(); err != nil {
			return err
		}
		if i < 90 {
			if err := rec.Flush(context.Background()); err != nil {
				return err
			}
		}
	}
	return rec.Err()
}
