package entrybytes

import (
	"context"

	"github.com/entrace-go/entrace/internal/file/mapfile"
)

// Package format sets these variables. Through them, the packages of this module use functions that it does not export.
var (
	// Of returns the encoded entries of a *format.File.
	Of func(file any) Entries
	// OpenMapped is like format.Open, with *format.OpenOptions or nil, for a mapped file. The first stored bytes of m
	// are in the file, and the rest came from the journal of the writer. The method Journal of the *format.File
	// returns the error missing.
	OpenMapped func(m *mapfile.File, name string, stored int64, missing error, options any) (any, error)
	// Finalize is format.Finalize with *format.FinalizeOptions and the index of the IET. If the index covers the whole
	// file, Finalize does not scan the file.
	Finalize func(ctx context.Context, iet, et string, options any, x *Index) error
)
