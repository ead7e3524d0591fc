package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/format"
	texts "github.com/entrace-go/entrace/internal/text"
)

// isTraceName reports whether s is the name of an existing trace or folder.
func isTraceName(s string) bool {
	fi, err := os.Stat(s)
	ext := filepath.Ext(s)
	return err == nil && (fi.IsDir() || ext == ".et" || ext == ".iet")
}

// otherFolder returns a text for the end of an error message: it names a folder in dir that has the traces of a
// flight recorder. The text is "" if no such folder exists.
func otherFolder(dir string) string {
	list, err := tracesIn(dir, true)
	if err != nil || len(list) == 0 {
		return ""
	}
	return fmt.Sprintf(", but folder %s has one: name the folder", filepath.Dir(list[0].File))
}

// nearTraces returns a text for the end of an error message: it names traces in the folder of a name that does not
// exist, those with similar names first. The text is "" if the folder has none.
func nearTraces(name string) string {
	list, _ := tracesIn(filepath.Dir(name), false) // none if the folder cannot be read
	var traces []string
	for _, x := range list {
		traces = append(traces, x.File)
	}
	if len(traces) == 0 {
		return ""
	}
	return "; there is " + strings.Join(texts.NearestFew(name, traces, 3), ", ")
}

// newestTrace returns the last modified trace in a folder, or "" if the folder has no trace.
func newestTrace(dir string) (newest string, err error) {
	list, err := tracesIn(dir, false)
	if err != nil || len(list) == 0 {
		return "", err
	}
	return list[0].File, nil
}

// tracesIn returns the traces in a folder, the last modified first. If flights is set, tracesIn also returns the traces
// in the folders dir/*-traces of flight recorders, and dir can be the name of a trace instead of a folder.
func tracesIn(dir string, flights bool) (traces []*runLine, err error) {
	if fi, err := os.Stat(format.Find(dir)); flights && err == nil && !fi.IsDir() { //nolint:gosec // the user's own file
		return []*runLine{{File: format.Find(dir), Time: fi.ModTime(), Bytes: fi.Size()}}, nil
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		name := filepath.Join(dir, e.Name())
		if flights && e.IsDir() && strings.HasSuffix(name, "-traces") {
			more, _ := tracesIn(name, false) // none if it cannot be read
			traces = append(traces, more...)
		}
		ext := filepath.Ext(name)
		if ext != ".et" && ext != ".iet" || !e.Type().IsRegular() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		fi, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		traces = append(traces, &runLine{File: name, Time: fi.ModTime(), Bytes: fi.Size()})
	}
	slices.SortStableFunc(traces, newerFirst)
	return traces, nil
}

// lastName matches the names of recordings that are counted from the newest one.
var lastName = regexp.MustCompile(`^@last(?:~([0-9]{1,9}))?(?::(.+))?$`)

// traceNamed returns the name of the trace that name means: @last is the newest trace, @last~1 the one before, and
// @last:SERVICE the newest of a service. traceNamed searches the folder dir and the folders dir/*-traces. It returns
// other names, and names of existing files, unchanged.
func traceNamed(ctx context.Context, c *console, dir, name string) (string, error) {
	if row, is := rowNamed(name); is {
		file, err := traceNamed(ctx, c, dir, row.file)
		return file + name[len(row.file):], err
	}
	m := lastName.FindStringSubmatch(name)
	if _, err := os.Lstat(name); m == nil || err == nil {
		return name, nil
	}
	traces, err := tracesIn(dir, true)
	if err != nil {
		return "", err
	}
	before, _ := strconv.Atoi(m[1]) // 0 if there is none
	service := m[2]
	var services []string
	found := 0
	for _, t := range traces {
		if service != "" {
			t.read(ctx, true)
			services = append(services, t.Service)
		}
		if service != t.Service {
			continue
		}
		if found == before {
			c.say("%s is %s", name, t.File)
			return t.File, nil
		}
		found++
	}
	err = usagef("%s: the current folder and its folders *-traces have %s", name, plural(found, "such trace"))
	if like := texts.Nearest(service, services, maxServiceDistance); found == 0 && like != "" {
		err = fmt.Errorf("%w; did you mean @last:%s?", err, like)
	}
	return "", err
}

// maxServiceDistance is large, because a folder has few services.
const maxServiceDistance = 64
