package viewer

import "github.com/entrace-go/entrace/query/analyze"

// A skew is an [analyze.Clock] for the page.
type skew struct {
	Name string `json:"name"`
	Late string `json:"late"` // the correction, in the form that the flag --clock accepts
}

// skews returns the clocks that seem to be wrong.
func (s *state) skews() []skew {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clocks == nil {
		s.clocks = []skew{}
		for _, c := range analyze.Clocks(s.v, s.names) {
			s.clocks = append(s.clocks, skew{c.Name, c.Text()})
		}
	}
	return s.clocks
}
