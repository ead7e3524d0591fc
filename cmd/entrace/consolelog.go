package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/loglines"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
)

// A consoleLog passes on the output of a command, and records the lines of this output.
type consoleLog struct {
	rec *recorder.Recorder
	ref format.SpanRef // the span of the command

	streams []*lineStream
}

// stream returns the pipe that replaces w in the command.
func (c *consoleLog) stream(w *os.File, name string) (*os.File, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s := newLineStream(c, name)
	s.w, s.from, s.to, s.ended = w, from, to, make(chan error, 1)
	c.streams = append(c.streams, s)
	go func() {
		_, err := io.Copy(s, from)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			_ = from.Close() // if w accepts no more data, the command gets the same error as without a pipe
		}
		s.ended <- err
	}()
	return to, nil
}

// started closes the pipe ends that only the command uses. It is called when the command has started.
func (c *consoleLog) started() {
	for _, s := range c.streams {
		_ = s.to.Close()
	}
}

// consoleDelay is how long run still records output after the command has ended. Child processes of the command
// may still print to the same output.
const consoleDelay = 2 * time.Second

// finish waits for the end of the output, at most for consoleDelay. After that, a separate process passes the
// output on, and nothing records it.
func (c *consoleLog) finish() {
	end := time.Now().Add(consoleDelay)
	for _, s := range c.streams {
		_ = s.from.SetReadDeadline(end)
		if !errors.Is(<-s.ended, os.ErrDeadlineExceeded) {
			continue
		}
		self, err := os.Executable()
		if err == nil {
			drain := exec.Command(self, drainCommand) //nolint:gosec,noctx // it ends with its input
			drain.Stdin, drain.Stdout, drain.SysProcAttr = s.from, s.w, detached
			err = drain.Start()
			if err == nil {
				_ = drain.Process.Release()
			}
		}
		_ = s.from.Close()
	}
}

// drainCommand is the name of the hidden command that runs in the separate process of finish.
const drainCommand = "pass-on"

// close records the last lines, which have no newline at the end.
func (c *consoleLog) close() {
	for _, s := range c.streams {
		s.close()
	}
}

// recordAfter is how long a record waits for further lines that belong to it, such as the frames of a stack.
const recordAfter = 100 * time.Millisecond

// maxLine is the maximum number of bytes of a line that has no end yet. A longer line becomes several records.
const maxLine = 64 << 10

// A lineStream records the lines of a log, or of one output of a command. Write first passes the output on to w.
type lineStream struct {
	*consoleLog

	w        io.Writer
	from, to *os.File // the pipe
	ended    chan error
	name     string // of the output; "" for a log
	batch    *recorder.Batch

	mu     sync.Mutex
	rest   []byte // the bytes of a line that has no newline yet
	parser *loglines.Parser
	timer  *time.Timer // records the lines that wait
}

func newLineStream(c *consoleLog, name string) *lineStream {
	s := &lineStream{consoleLog: c, w: io.Discard, name: name, batch: c.rec.Batch()}
	s.parser = loglines.NewParser(time.Now(), s.record)
	s.timer = time.AfterFunc(recordAfter, s.flush)
	return s
}

func (s *lineStream) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, b...)
	end := bytes.LastIndexByte(s.rest, '\n') + 1
	if len(s.rest)-end >= maxLine {
		end = len(s.rest)
	}
	s.parse(string(s.rest[:end]))
	s.rest = append(s.rest[:0], s.rest[end:]...)
	s.timer.Reset(recordAfter)
	return n, err
}

// parse records the lines of text.
func (s *lineStream) parse(text string) {
	s.parser.Now = time.Now().UnixNano()
	for text != "" {
		text = text[s.parser.Next(text):]
	}
	_ = s.batch.Write() // the recorder counts the records that are not written
}

// flush records the lines that wait for further lines.
func (s *lineStream) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parser.Flush()
	_ = s.batch.Write()
}

func (s *lineStream) close() {
	s.timer.Stop()
	s.mu.Lock() // flush may have begun
	s.parse(string(s.rest))
	s.rest = nil
	s.mu.Unlock()
	s.flush()
}

// record writes a record, which the parser found in one or several lines, to the trace. If the lines name no span, the
// record belongs to the span of the command.
func (s *lineStream) record(r *loglines.Record) {
	l := &r.Log
	l.Observed = time.Now().UnixNano()
	if l.TraceID == [16]byte{} {
		l.TraceID, l.SpanID, l.Flags = s.ref.TraceID, s.ref.SpanID, 1
		l.Failed = false // a request failed, and not the command
	}
	if s.name != "" {
		l.Attributes = append(l.Attributes, otel.Text("log.iostream", s.name))
	}
	ref := format.SpanRef{TraceID: l.TraceID, SpanID: l.SpanID}
	s.batch.Log(ref, l.Time)
	l.Write(inside.OfBatch(s.batch), otel.Where{Trace: ref.IsValid(), Parent: ref.IsValid()}, &l.Attributes)
}
