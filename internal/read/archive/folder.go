package archive

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// A folder is a target in the file system. Only the user may read the names and contents of its files.
type folder struct {
	dir   string
	ready map[string]bool // existing folders that were already cleaned of files of killed archivers
}

// Folder returns a target that stores objects in the folder dir. The folder is created for the first object.
func Folder(dir string) Target { return &folder{dir: dir, ready: make(map[string]bool)} }

func (t *folder) name(key string) string { return filepath.Join(t.dir, filepath.FromSlash(key)) }

func (t *folder) Has(_ context.Context, key string) (bool, error) {
	fi, err := os.Lstat(t.name(key))
	if os.IsNotExist(err) {
		return false, nil
	}
	return err == nil && fi.Mode().IsRegular(), err
}

func (t *folder) Create(ctx context.Context, key string) (Object, error) {
	name := t.name(key)
	if err := t.prepare(ctx, filepath.Dir(name)); err != nil {
		return nil, err
	}
	tmp, err := osfile.CreateTemp(name)
	if err != nil {
		return nil, err
	}
	return file{tmp}, nil
}

// prepare creates a folder of the archive, makes its name durable, and deletes files that killed archivers left in
// it.
func (t *folder) prepare(ctx context.Context, dir string) error {
	if t.ready[dir] {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if err := osfile.SyncDir(at); err != nil {
			return err
		}
		if len(at) <= len(t.dir) {
			break
		}
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	deadtrace.RemoveTemps(ctx, dir, list, true, func(name string) bool {
		return strings.HasSuffix(name, ".parquet") || strings.HasSuffix(name, ".json")
	})
	t.ready[dir] = true
	return nil
}

// A file is an object of a folder.
type file struct{ *osfile.Temp }

func (f file) Commit(context.Context) error { return f.Temp.Commit(true) }
