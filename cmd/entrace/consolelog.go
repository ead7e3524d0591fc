package main

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/recorder"
)

// A consoleLog passes on the output of a command, and records its lines.
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
	s := &lineStream{consoleLog: c, w: w, from: from, to: to, ended: make(chan error, 1), name: name, batch: c.rec.Batch()}
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

// maxLine is the maximum number of bytes in one record. A longer line becomes several records.
const maxLine = 64 << 10

// A lineStream is one output of a command. Write first passes the bytes on to w, and then records them.
type lineStream struct {
	*consoleLog

	w        *os.File
	from, to *os.File // the pipe
	ended    chan error
	name     string
	batch    *recorder.Batch

	mu   sync.Mutex
	rest []byte // the bytes of a line that has no newline yet
}

func (s *lineStream) Write(b []byte) (int, error) {
	n, err := s.w.Write(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = append(s.rest, b...)
	from := 0
	for {
		i, newline := bytes.IndexByte(s.rest[from:], '\n'), 1
		if i < 0 {
			if len(s.rest)-from < maxLine {
				break
			}
			i, newline = maxLine, 0
		}
		s.record(s.rest[from : from+i])
		from += i + newline
	}
	s.rest = append(s.rest[:0], s.rest[from:]...)
	_ = s.batch.Write() // the recorder counts the records that are not written
	return n, err
}

func (s *lineStream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record(s.rest)
	s.rest = nil
	_ = s.batch.Write()
}

func (s *lineStream) record(line []byte) {
	line = bytes.TrimRight(line, "\r")
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	now := time.Now()
	l := parseLine(string(line), now)
	l.Observed, l.TraceID, l.SpanID, l.Flags = now.UnixNano(), s.ref.TraceID, s.ref.SpanID, 1
	l.Attributes = append(l.Attributes, textAttribute("log.iostream", s.name))
	s.batch.Log(s.ref, l.Time)
	l.Write(s.batch, otel.Where{Trace: true, Parent: true}, &l.Attributes)
}

// parseLine finds level, time and attributes in a line that a program prints. If the line has no
// time, the record gets the time now.
func parseLine(line string, now time.Time) *otel.Log {
	line = escapes.ReplaceAllString(line, "")
	l := &otel.Log{Time: now.UnixNano(), HasTime: true, Severity: severityInfo}
	fields, ok := jsonFields(line)
	if !ok {
		fields, ok = logfmtFields(line)
	}
	l.Body = otel.TextAny(line)
	if !ok {
		if word := levelInText(line[:min(len(line), levelWithin)]); word != "" {
			l.SeverityText = word
			l.Severity, _ = otel.SeverityNamed(word)
		}
		if t, ok := leadingTime(line); ok {
			l.Time = t
		}
		return l
	}
	said := false
	tracing := slices.ContainsFunc(fields, func(f otel.KeyValue) bool { return f.Key == rustFields+"message" })
	for i := range fields {
		f := &fields[i]
		if tracing {
			f.Key = strings.TrimPrefix(f.Key, rustFields)
		}
		switch strings.ToLower(f.Key) {
		case "msg", "message", "event":
			if !said && f.Value.Kind == otel.String {
				l.Body, said = f.Value, true
				continue
			}
		case "level", "lvl", "severity", "loglevel", "levelname", "log.level":
			if n, text, ok := levelOf(&f.Value); ok {
				l.Severity, l.SeverityText = n, text
				continue
			}
		case "time", "ts", "timestamp", "@timestamp", "t", "datetime", "asctime":
			if t, ok := timeOf(&f.Value); ok {
				l.Time = t
				continue
			}
		case "target":
			if tracing && f.Value.Kind == otel.String {
				l.Scope.Name = f.Value.Text
				continue
			}
		}
		l.Attributes = append(l.Attributes, otel.NewAttribute(f.Key, &f.Value))
	}
	return l
}

// rustFields is a prefix of attribute names in the JSON lines of Rust's crate tracing-subscriber.
const rustFields = "fields."

// escapes matches the escape sequences that color a terminal.
var escapes = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

// jsonFields reads a line that is one JSON object.
func jsonFields(line string) (fields []otel.KeyValue, ok bool) {
	v, err := otel.ParseJSON(line)
	if err != nil || v.Kind != otel.Map {
		return nil, false
	}
	for _, f := range v.Map {
		fields = flat(fields, f.Key, f.Value, maxFlat)
	}
	return fields, true
}

// maxFlat is the maximum nesting depth of objects whose fields are joined with dots.
const maxFlat = 16

// flat appends v to fields under the name name. If v is an object, flat appends its values instead, and joins the
// names with dots, as package slogadapter does for groups. depth is how many levels of objects flat still opens.
func flat(fields []otel.KeyValue, name string, v otel.Any, depth int) []otel.KeyValue {
	if v.Kind != otel.Map || depth == 0 {
		return append(fields, otel.KeyValue{Key: name, Value: v})
	}
	for i := range v.Map {
		fields = flat(fields, name+"."+v.Map[i].Key, v.Map[i].Value, depth-1)
	}
	return fields
}

// logfmtPair matches a key and a value of logfmt. The value may be in quotes.
var logfmtPair = regexp.MustCompile(`^\s*([A-Za-z_@][\w.@/-]*)=("(?:[^"\\]|\\.)*"|[^\s"]*)(?:\s+|$)`)

// logfmtFields reads a line that consists of at least two logfmt pairs and nothing else.
func logfmtFields(line string) ([]otel.KeyValue, bool) {
	var fields []otel.KeyValue
	for rest := line; rest != ""; {
		m := logfmtPair.FindStringSubmatch(rest)
		if m == nil {
			return nil, false
		}
		value := m[2]
		if text, err := strconv.Unquote(value); err == nil {
			value = text
		}
		fields = append(fields, otel.KeyValue{Key: m[1], Value: otel.TextAny(value)})
		rest = rest[len(m[0]):]
	}
	return fields, len(fields) > 1
}

const severityInfo = 9 // the number of level INFO in OTLP

// levelWord matches a level in a line of plain text, either in capitals or in brackets. It is applied to the first
// levelWithin bytes of the line.
var levelWord = regexp.MustCompile(`\b(TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|PANIC)\b|\[(?i:(trace|debug|info|warn|warning|error|fatal))\]`)

const levelWithin = 80

// levelBefore matches a level before a message, as compilers and runtimes print it, possibly after a position in a
// file: "main.c:3:5: error: …", "Error: …", "warning[E0425]: …", "ValueError: …", "npm ERR! …".
var levelBefore = regexp.MustCompile(`^(?:\S+:\s+)?(?:fatal (error):|(?i:(error|warning|fatal|panic))(?: [A-Z]+\d+|\[\w+\])?:|[A-Z]\w*(Error|Exception): |npm (ERR)!)`)

// klogLevel matches the beginning of a line of klog and glog, such as "E1124 10:00:00.000000".
var klogLevel = regexp.MustCompile(`^([IWEF])\d{4} \d\d:\d\d:\d\d`)

var klogLevels = map[string]string{"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "FATAL"}

// levelInText returns the name of the level in a line of plain text, or "" if there is none.
func levelInText(line string) string {
	if m := klogLevel.FindStringSubmatch(line); m != nil {
		return klogLevels[m[1]]
	}
	if m := levelWord.FindStringSubmatch(line); m != nil {
		return m[1] + m[2]
	}
	m := levelBefore.FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	if m[3] != "" {
		return "error"
	}
	return m[1] + m[2] + m[4]
}

// levelOf reads a level: a name, or a number of the loggers bunyan and pino.
func levelOf(v *otel.Any) (n uint32, text string, ok bool) {
	if v.Kind == otel.Int && v.Int >= 10 && v.Int <= 60 && v.Int%10 == 0 {
		return [...]uint32{1, 5, 9, 13, 17, 21}[v.Int/10-1], strconv.FormatInt(v.Int, 10), true
	}
	if v.Kind != otel.String {
		return 0, "", false
	}
	n, ok = otel.SeverityNamed(v.Text)
	return n, v.Text, ok
}

// timeOf reads a time: a text in one of timeLayouts, or a number since 1970. The number's size decides whether it
// counts seconds, milliseconds, microseconds or nanoseconds.
func timeOf(v *otel.Any) (int64, bool) {
	switch v.Kind {
	case otel.String:
		for _, layout := range timeLayouts {
			if t, err := time.ParseInLocation(layout, v.Text, time.Local); err == nil {
				return t.UnixNano(), true
			}
		}
		f, err := strconv.ParseFloat(v.Text, 64)
		return sinceEpoch(f), err == nil && f > firstSecond
	case otel.Int:
		return v.Int * int64(unitOf(float64(v.Int))), v.Int > firstSecond
	case otel.Float:
		return sinceEpoch(v.Float), v.Float > firstSecond && !math.IsInf(v.Float, 0)
	}
	return 0, false
}

const firstSecond = 100_000_000 // in 1973: a smaller number is not the time of a log record

// sinceEpoch returns f in nanoseconds. The parameter f is a time since 1970, in the unit that unitOf guesses.
func sinceEpoch(f float64) int64 { return int64(min(f*unitOf(f), 1<<62)) }

// unitOf guesses the unit of a time since 1970 from its size, and returns the unit in nanoseconds.
// Numbers of the years 1973 to 5138 are unambiguous.
func unitOf(f float64) float64 {
	switch {
	case f < 1e11:
		return 1e9
	case f < 1e14:
		return 1e6
	case f < 1e17:
		return 1e3
	}
	return 1
}

var timeLayouts = []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006/01/02 15:04:05.999999999"}

// leadingTime reads the time at the beginning of a line of plain text. The time may be in brackets.
func leadingTime(line string) (int64, bool) {
	line = strings.TrimLeft(line, "[ ")
	line = strings.Replace(line, ",", ".", 1) // Python's logging writes a comma before the milliseconds
	words := strings.SplitN(line, " ", 3)
	for n := min(2, len(words)); n > 0; n-- {
		text := strings.TrimRight(strings.Join(words[:n], " "), "]:")
		if len(text) < len("2006-01-02T15:04:05") {
			break
		}
		if t, ok := timeOf(&otel.Any{Kind: otel.String, Text: text}); ok {
			return t, true
		}
	}
	return 0, false
}

func textAttribute(name, s string) otel.Attribute {
	return otel.NewAttribute(name, &otel.Any{Kind: otel.String, Text: s})
}
