package receive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// A bodyError is why a body cannot be read, with the status of HTTP that says so.
type bodyError struct {
	code int
	text string
}

func (e *bodyError) Error() string { return e.text }

// A body is the content of a request, in memory that the server counts.
type body struct {
	server   *Server
	data     []byte
	reserved int64
}

func (b *body) release() { b.server.memory.Add(-b.reserved) }

// reserve counts the capacity of the data, which is about to be n.
func (b *body) reserve(n int64) error {
	more := n - b.reserved
	if b.server.memory.Add(more) > b.server.o.MaxMemory {
		b.server.memory.Add(-more)
		return &bodyError{http.StatusTooManyRequests, "too many requests at once"}
	}
	b.reserved = n
	return nil
}

const (
	firstBuffer = 64 << 10
	// maxRatio is how many times as large as it came a body may become, beyond freeRatio bytes.
	maxRatio  = 256
	freeRatio = 1 << 20
)

// read reads from r up to the largest request. The length that a sender claims is only believed as
// it comes.
func (b *body) read(r io.Reader, came *counter) error {
	limit := b.server.o.MaxRequest
	for {
		if len(b.data) == cap(b.data) {
			n := min(max(firstBuffer, 2*int64(cap(b.data))), limit+1)
			if err := b.reserve(n); err != nil {
				return err
			}
			grown := make([]byte, len(b.data), n)
			copy(grown, b.data)
			b.data = grown
		}
		n, err := r.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		switch size := int64(len(b.data)); {
		case size > limit:
			return &bodyError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d bytes", limit)}
		case came != nil && size > freeRatio && size > maxRatio*came.n:
			return &bodyError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is compressed more than %d times", maxRatio)}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return failedRead(err)
		}
	}
}

func failedRead(err error) error {
	if n, ok := errors.AsType[net.Error](err); errors.Is(err, os.ErrDeadlineExceeded) || ok && n.Timeout() {
		return &bodyError{http.StatusRequestTimeout, "the request took too long to come"}
	}
	return &bodyError{http.StatusBadRequest, "the request cannot be read: " + err.Error()}
}

// readBody reads the body of a request over HTTP.
func (b *body) readBody(r io.Reader, encoding string, length int64) error {
	if length > b.server.o.MaxRequest {
		return &bodyError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d bytes", b.server.o.MaxRequest)}
	}
	switch encoding {
	case "", "identity":
		return b.read(r, nil)
	case "gzip":
		return b.unzip(r)
	}
	return &bodyError{http.StatusUnsupportedMediaType, "expected no compression or gzip, not " + encoding}
}

// readCall reads the one message of a call by gRPC.
func (b *body) readCall(r io.Reader, encoding string) error {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return failedRead(err)
	}
	size := int64(binary.BigEndian.Uint32(head[1:]))
	if size > b.server.o.MaxRequest {
		return &bodyError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the message is larger than %d bytes", b.server.o.MaxRequest)}
	}
	message := &counter{r: io.LimitReader(r, size)}
	var err error
	switch {
	case head[0] == 0:
		err = b.read(message, nil)
	case head[0] == 1 && encoding == "gzip":
		err = b.unzip(message)
	default:
		return &bodyError{http.StatusUnsupportedMediaType, "expected no compression or gzip"}
	}
	if err == nil && message.n < size {
		return &bodyError{http.StatusBadRequest, "the message is cut off"}
	}
	return err
}

// A counter counts what is read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

var unzippers sync.Pool // of *gzip.Reader

func (b *body) unzip(r io.Reader) error {
	came := &counter{r: r}
	z, ok := unzippers.Get().(*gzip.Reader)
	if !ok {
		z = new(gzip.Reader)
	}
	defer unzippers.Put(z)
	if err := z.Reset(came); err != nil {
		return failedRead(err)
	}
	if err := b.read(z, came); err != nil {
		return err
	}
	// What is behind the end is nothing; it has to be read for the next request to come.
	_, err := io.Copy(io.Discard, io.LimitReader(came, 1<<10))
	if err != nil {
		return failedRead(err)
	}
	return nil
}
