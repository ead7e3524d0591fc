package receive

// Memory returns the memory in bytes of the requests that are being read or recorded.
func (s *Server) Memory() int64 { return s.memory.Load() }
