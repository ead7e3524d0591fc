package receive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// A bodyError says why a body cannot be read, and has the HTTP status for the answer.
type bodyError struct {
	code int
	text string
}

func (e *bodyError) Error() string { return e.text }

// A body is the content of a request. Its memory counts against MaxMemory of the server.
type body struct {
	server   *Server
	data     []byte
	reserved int64
}

// bodies has buffers for reuse: a *[]byte each, of at most maxKept bytes.
var bodies sync.Pool

const maxKept = 1 << 20

func (b *body) release() {
	b.server.memory.Add(-b.reserved)
	if cap(b.data) > 0 && cap(b.data) <= maxKept {
		data := b.data[:0]
		bodies.Put(&data)
	}
}

// reserve changes the memory that b has reserved to n bytes. It returns an error if the bodies of all requests would
// exceed MaxMemory.
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
	// maxRatio is the maximum ratio of the size of a body to its compressed size. It does not apply to the first
	// freeRatio bytes.
	maxRatio  = 256
	freeRatio = 1 << 20
)

// read reads at most MaxRequest bytes from r. It allocates memory for the bytes that have arrived, and not for the
// length that a sender claims. came, if not nil, counts the compressed bytes.
func (b *body) read(r io.Reader, came *counter) error {
	limit := b.server.o.MaxRequest
	for {
		if len(b.data) == cap(b.data) {
			if err := b.grow(limit + 1); err != nil {
				return err
			}
		}
		n, err := r.Read(b.data[len(b.data):cap(b.data)])
		b.data = b.data[:len(b.data)+n]
		switch size := int64(len(b.data)); {
		case size > limit:
			return &bodyError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d bytes", limit)}
		case came != nil && size > freeRatio && size > maxRatio*came.n:
			return &bodyError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is more than %d times larger when decompressed", maxRatio)}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return failedRead(err)
		}
	}
}

// grow makes room for more data, up to most bytes in total.
func (b *body) grow(most int64) error {
	if b.data == nil {
		if kept, ok := bodies.Get().(*[]byte); ok && int64(cap(*kept)) <= most {
			b.data = *kept
			return b.reserve(int64(cap(b.data)))
		}
	}
	n := min(max(firstBuffer, 2*int64(cap(b.data))), most)
	if err := b.reserve(n); err != nil {
		return err
	}
	b.data = append(make([]byte, 0, n), b.data...)
	return nil
}

func failedRead(err error) error {
	if n, ok := errors.AsType[net.Error](err); errors.Is(err, os.ErrDeadlineExceeded) || ok && n.Timeout() {
		return &bodyError{http.StatusRequestTimeout, "the request took too long to arrive"}
	}
	return &bodyError{http.StatusBadRequest, "the request cannot be read: " + err.Error()}
}

// readBody reads and decompresses the body of an HTTP request.
func (b *body) readBody(r io.Reader, encoding string, length int64) error {
	if length > b.server.o.MaxRequest {
		return &bodyError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d bytes", b.server.o.MaxRequest)}
	}
	switch strings.ToLower(encoding) {
	case "", "identity":
		return b.read(r, nil)
	case "gzip", "x-gzip":
		return b.unzip(r)
	}
	return &bodyError{http.StatusUnsupportedMediaType, "expected no compression or gzip, found " + encoding}
}

// readCall reads the only message of a gRPC call.
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

// A counter is a reader that counts the bytes read.
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
	// Read to the end of the body, so that HTTP/1.1 can reuse the connection. Nothing should follow the gzip data.
	_, err := io.Copy(io.Discard, io.LimitReader(came, 1<<10))
	if err != nil {
		return failedRead(err)
	}
	return nil
}
