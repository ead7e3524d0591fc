package journal

// A Stream is a stream that belongs to no shard, for example the stream of definitions or the
// stream of parked spans. Only one goroutine may use it at a time.
type Stream struct {
	j      *Journal
	number uint32
	seg    *Segment
	base   uint64
	buf    []byte
}

// NewStream returns a new stream with the given number, which no other stream of j may have.
func (j *Journal) NewStream(number uint32) *Stream { return &Stream{j: j, number: number} }

// Append appends a record with at most MaxStreamRecord bytes of data and returns its segment. The
// caller releases segments that are not needed any more.
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

// MaxStreamRecord is the size of the data of the largest record of a Stream.
const MaxStreamRecord = maxPart - HeadSize

// Position returns the position of the next record.
func (s *Stream) Position() uint64 {
	if s.seg == nil {
		return s.base
	}
	return s.seg.base + uint64(s.seg.end)
}

// Segment returns the segment of the next record, nil if the stream has no segment yet.
func (s *Stream) Segment() *Segment { return s.seg }

// Release frees a segment that Append has returned.
func (s *Stream) Release(seg *Segment) {
	if seg == s.seg {
		s.seg = nil
	}
	s.j.pool.release(seg)
}
