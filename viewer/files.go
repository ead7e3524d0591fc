package viewer

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/view"
)

// files holds the files of a view, as they were when the view was made.
type files struct {
	v           *view.View
	names       []string
	fingerprint string
	beginnings  []beginning

	checking sync.Mutex
	checked  time.Time
	broken   error // the result of the last check
}

func (h *Handler) filesOf(v *view.View) *files {
	s := &files{v: v, fingerprint: fingerprint(v, fingerprintSize)}
	for i, f := range v.Files() {
		if h.options.Names != nil {
			s.names = append(s.names, h.options.Names(i))
		} else {
			s.names = append(s.names, f.Name())
		}
		hash, n := hashOf(v, i, beginningSize)
		s.beginnings = append(s.beginnings, beginning{hash, n})
	}
	return s
}

// fingerprintSize is the largest number of bytes of entries that a fingerprint covers.
const fingerprintSize = 64 << 10

// sameTrace reports whether known is a fingerprint of the trace v, now or before the trace grew.
func sameTrace(v *view.View, known string) bool {
	parts := strings.Split(known, "-")
	if len(parts) != 3 {
		return false
	}
	n, err := strconv.ParseInt(parts[1], 36, 32)
	return err == nil && n > 0 && n <= fingerprintSize && fingerprint(v, n) == known
}

// fingerprint returns a text that identifies a trace: a hash of at most limit bytes at the beginning of the first
// file's entries, the number of hashed bytes, and the number of files. The text is the same for an IET and for the ET
// that is made from it.
// [sameTrace] compares fingerprints of files that have grown.
func fingerprint(v *view.View, limit int64) string {
	hash, n := hashOf(v, 0, limit)
	return hash + "-" + strconv.FormatInt(n, 36) + "-" + strconv.Itoa(len(v.Files()))
}

// hashOf returns a hash of at most limit bytes at the beginning of a file's entries, and the number of hashed bytes.
func hashOf(v *view.View, file int, limit int64) (hash string, n int64) {
	e := entrybytes.Of(v.Files()[file])
	h := sha256.New()
	left, gap := limit, int64(e.Gap())
	var buf []byte // a copy, because a read from a mapped file faults if the file is truncated
	for id := uint32(0); int(id) < v.Entries(file) && left > 0; id++ {
		from := e.Offset(id) + gap
		n := min(left, e.Offset(id+1)-from)
		buf = buf[:0]
		if e.View(from, n, func(b []byte) { buf = append(buf, b...) }) != nil {
			break
		}
		h.Write(buf)
		left -= n
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), limit - left
}

// A beginning is a hash that identifies the first n bytes of a file's entries.
type beginning struct {
	hash string
	n    int64
}

// beginningSize is the largest number of bytes that a beginning covers.
const beginningSize = 4 << 10

// checkEvery is the minimum time between two checks whether another program has changed the files.
const checkEvery = time.Second

// intact returns an error if a file was truncated or overwritten since the view was made.
func (f *files) intact() error {
	f.checking.Lock()
	defer f.checking.Unlock()
	if time.Since(f.checked) < checkEvery {
		return f.broken
	}
	f.checked, f.broken = time.Now(), nil
	for i, was := range f.beginnings {
		hash, n := hashOf(f.v, i, was.n)
		if hash == was.hash {
			continue
		}
		text := " was overwritten while it was open"
		if n < was.n {
			text = " was truncated while it was open"
		}
		f.broken = &problem{status: http.StatusConflict, text: f.names[i] + text}
		break
	}
	return f.broken
}

// continues reports whether the view v contains all rows of the earlier view was, with the same numbers.
func continues(v, was *view.View) bool {
	if v.Len() < was.Len() || len(v.Files()) < len(was.Files()) {
		return false
	}
	for i := range was.Files() {
		known, n := hashOf(was, i, fingerprintSize)
		if now, m := hashOf(v, i, n); now != known || m != n {
			return false
		}
	}
	for r := range was.Rows() {
		file, id := was.ID(r)
		if f, i := v.ID(r); f != file || i != id {
			return false
		}
	}
	return true
}
