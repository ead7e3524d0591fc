package deadtrace

import (
	"errors"
	"os"
)

// ReplayAndStop replays the journal of a dead writer into its IET, and then stops like a process that is
// killed. If remove is set, it also removes the journal.
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
