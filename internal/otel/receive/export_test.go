package receive

// SetMaxSuspended changes the maximum number of suspended files, and returns a function that sets it back.
func SetMaxSuspended(n int) (restore func()) {
	was := maxSuspended
	maxSuspended = n
	return func() { maxSuspended = was }
}

// Memory returns the memory in bytes of the requests that are being read or recorded.
func (s *Server) Memory() int64 { return s.memory.Load() }
