package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/redact"
)

// A followedLog records the lines of a growing log in a trace, and tail then follows this trace. It continues with the
// next file if the log was renamed or replaced, and at the beginning if the log was truncated.
type followedLog struct {
	name  string
	trace string // the file with the records, in dir
	dir   string
	lines *lineStream
	file  *os.File
	stop  context.CancelFunc
	ended sync.WaitGroup
}

// isLog reports whether a file is a log. The parameter from is the value of --from.
func isLog(name, from string) bool {
	f, compressed, _, err := convert.FormatOf(name)
	return err == nil && !compressed && (from == string(convert.Log) || from == "" && f == convert.Log)
}

// followLog records the lines that a log already has, and begins to follow the log. The caller must call close.
func followLog(ctx context.Context, name string) (*followedLog, error) {
	dir, err := os.MkdirTemp("", "entrace-")
	if err != nil {
		return nil, err
	}
	l := &followedLog{name: name, dir: dir, trace: filepath.Join(dir, filepath.Base(name)+".iet")}
	rec, err := recorder.Create(l.trace, &recorder.Options{Redact: redact.Off})
	if err == nil {
		l.lines = newLineStream(&consoleLog{rec: rec}, "")
		l.file, err = osfile.OpenRead(name)
	}
	if err == nil {
		_, err = io.Copy(l.lines, l.file)
		err = errors.Join(err, rec.Flush(ctx))
	}
	ctx, l.stop = context.WithCancel(ctx)
	if err != nil {
		l.close()
		return nil, err
	}
	l.ended.Go(func() { l.follow(ctx) })
	return l, nil
}

func (l *followedLog) follow(ctx context.Context) {
	for wait(ctx) {
		fi, err := l.file.Stat()
		if err != nil {
			return
		}
		var next *os.File
		if !osfile.IsNamed(fi, l.name) {
			next, _ = osfile.OpenRead(l.name) // nil while no file has the name
		}
		if read, err := l.file.Seek(0, io.SeekCurrent); err == nil && fi.Size() < read {
			_, _ = l.file.Seek(0, io.SeekStart) // if this fails, Copy fails as well
		}
		if _, err := io.Copy(l.lines, l.file); err != nil {
			return
		}
		if next != nil {
			_ = l.file.Close() // it was only read
			l.file = next
		}
	}
}

func (l *followedLog) close() {
	l.stop()
	l.ended.Wait()
	if l.file != nil {
		_ = l.file.Close()
	}
	if l.lines != nil {
		l.lines.close()
		_ = l.lines.rec.Close(context.Background())
	}
	_ = os.RemoveAll(l.dir)
}
