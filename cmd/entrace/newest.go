package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
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
	names, _ := filepath.Glob(filepath.Join(dir, "*-traces")) // no names if dir is not a valid pattern
	for _, name := range names {
		if newest, err := newestTrace(name); err == nil && newest != "" {
			return fmt.Sprintf(", but folder %s has one: name the folder", name)
		}
	}
	return ""
}

// newestTrace returns the last modified trace in a folder, or "" if the folder has no trace.
func newestTrace(dir string) (newest string, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var latest time.Time
	for _, e := range list {
		ext := filepath.Ext(e.Name())
		if ext != ".et" && ext != ".iet" || !e.Type().IsRegular() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		fi, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if t := fi.ModTime(); newest == "" || t.After(latest) {
			newest, latest = filepath.Join(dir, e.Name()), t
		}
	}
	return newest, nil
}
