package journal

// A Stream is a stream outside the shards, for example the stream of definitions. Only one goroutine may use it at
// a time.
type Stream struct {
	j      *Journal
	number uint32
	seg    *Segment
	base   uint64
	buf    []byte
}

// NewStream returns a new stream with the given number. No other stream of j may have this number.
func (j *Journal) NewStream(number uint32) *Stream { return &Stream{j: j, number: number} }

// Append appends a record and returns its segment. The data has at most MaxStreamRecord bytes. The caller must
// release a segment when it no longer needs it.
func (s *Stream) Append(time int64, info Info, data []byte) (*Segment, error) {
	if HeadSize+len(data) > maxPart {
		return nil, ErrTooLarge
	}
	s.buf = append(append(s.buf[:0], make([]byte, HeadSize)...), data...)
	r := Record{Time: time, Info: info, Data: s.buf}
	if s.seg == nil || !s.seg.fits(r.size()) {
		seg, err := s.j.pool.take(s.number, s.base)
		if err != nil {
			return nil, err
		}
		s.seg = seg
		s.base += SegmentSize
	}
	if _, err := s.seg.append(&r); err != nil {
		return nil, err
	}
	return s.seg, nil
}

// MaxStreamRecord is the largest size of the data of a record of a Stream.
const MaxStreamRecord = maxPart - HeadSize

// Position returns the position of the next record.
func (s *Stream) Position() uint64 {
	if s.seg == nil {
		return s.base
	}
	return s.seg.base + uint64(s.seg.end)
}

// Segment returns the segment of the last record, or nil if the stream has no segment.
func (s *Stream) Segment() *Segment { return s.seg }

// Release frees a segment that Append has returned.
func (s *Stream) Release(seg *Segment) {
	if seg == s.seg {
		s.seg = nil
	}
	s.j.pool.release(seg)
}
