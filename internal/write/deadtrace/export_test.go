package deadtrace

import (
	"errors"
	"os"
)

// ReplayAndStop brings what a dead writer left into its IET and stops there, as one that is killed
// does, with the journal removed or not.
func ReplayAndStop(stream string, remove bool) error {
	f, err := os.OpenFile(stream, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	b, err := openJournalTail(stream, true)
	if err != nil {
		return err
	}
	s, _, err := b.survey(f, fi.Size())
	if err == nil {
		err = b.replay(f, s)
	}
	if remove && b.f != nil {
		return errors.Join(err, b.f.Remove())
	}
	return errors.Join(err, b.close())
}
