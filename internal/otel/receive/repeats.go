package receive

import (
	"hash/maphash"
	"sync"
)

// repeats holds the hashes of requests whose spans were all recorded. If a sender gets no answer, it sends its spans
// again. It is safe for concurrent use.
type repeats struct {
	mu sync.Mutex
	// A request replaces an earlier request with the same index.
	requests [1 << 14]struct {
		sum   uint64
		spans int
	}
}

// seed is random, so that senders cannot predict the hashes of requests.
var seed = maphash.MakeSeed()

// find returns the hash of the request b, whether an equal request was recorded, and the number of its spans.
func (r *repeats) find(b []byte) (sum uint64, spans int, again bool) {
	sum = maphash.Bytes(seed, b)
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.requests[sum%uint64(len(r.requests))]
	return sum, x.spans, x.sum == sum
}

// add remembers that a request was recorded.
func (r *repeats) add(sum uint64, spans int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := &r.requests[sum%uint64(len(r.requests))]
	x.sum, x.spans = sum, spans
}

// forget forgets all requests. When a file is finished, a repeated request must begin a new file, as a new request
// does.
func (r *repeats) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.requests[:])
}
