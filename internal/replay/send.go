package replay

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/internal/text"
)

const (
	firstWait = time.Second      // before the second try
	longest   = 30 * time.Second // that is waited, where the endpoint does not ask for more
	patience  = time.Minute      // after which a request is not tried again

	maxAnswer  = 64 << 10 // bytes of an answer that are read
	maxMessage = 500      // of a message in it that are shown
)

// ErrUnreachable is the error of an endpoint that does not answer.
var ErrUnreachable = errors.New("the endpoint cannot be reached")

// An answer says what became of a request.
type answer struct {
	refused  bool  // all of it
	rejected int64 // of it
	message  string
}

// A sender sends requests, one by one.
type sender struct {
	body     bytes.Buffer
	zip      *gzip.Writer
	answered bool // something was, so that the endpoint is there
}

// post sends a message until it is taken or refused for good.
func (s *sender) post(ctx context.Context, t *Target, sig signal, message []byte) (answer, error) {
	d := &t.signals[sig]
	body, err := s.compress(d, message)
	if err != nil {
		return answer{}, err
	}
	begun := time.Now()
	for wait := firstWait; ; wait = min(2*wait, longest) {
		a, again, asked, err := s.try(ctx, d, body)
		switch {
		case ctx.Err() != nil:
			return a, context.Cause(ctx)
		case err == nil:
			s.answered = true
			if !again {
				return a, nil
			}
		case !s.answered:
			return a, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		pause := asked
		if pause == 0 {
			pause = wait/2 + rand.N(wait) //nolint:gosec // G404: so that many senders do not come back together
		}
		if time.Since(begun)+pause > patience {
			if err != nil {
				return a, fmt.Errorf("%w any more: %w", ErrUnreachable, err)
			}
			a.refused = true
			return a, nil
		}
		if err := sleep(ctx, pause); err != nil {
			return a, err
		}
	}
}

// compress returns the body of a request. It is valid until the next call.
func (s *sender) compress(d *destination, message []byte) ([]byte, error) {
	if !d.gzip {
		return message, nil
	}
	s.body.Reset()
	if s.zip == nil {
		s.zip = gzip.NewWriter(&s.body)
	} else {
		s.zip.Reset(&s.body)
	}
	_, err := s.zip.Write(message)
	err = errors.Join(err, s.zip.Close())
	return s.body.Bytes(), err
}

// try sends a request once. Again says that the endpoint may take it later, after the time that it
// asked for, 0 for none. The error is that of the network.
func (s *sender) try(ctx context.Context, d *destination, body []byte) (a answer, again bool, asked time.Duration, err error) {
	if d.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.timeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(body))
	if err != nil {
		return a, false, 0, err
	}
	req.Header = d.headers.Clone()
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "entrace-replay")
	if d.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return a, true, 0, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return a, true, 0, err
	}
	binary := strings.HasPrefix(resp.Header.Get("Content-Type"), "application/x-protobuf")
	if resp.StatusCode/100 == 2 {
		if binary {
			partial, _ := fieldOf(b, 1)
			_, a.rejected = fieldOf(partial, 1)
			message, _ := fieldOf(partial, 2)
			a.message = text.Cut(string(message), maxMessage)
		}
		return a, false, 0, nil
	}
	message := b
	if binary { // a google.rpc.Status
		message, _ = fieldOf(b, 2)
	}
	a.message = text.Cut(strings.TrimSpace(resp.Status+": "+strings.TrimSpace(string(message))), maxMessage)
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return a, true, retryAfter(resp.Header.Get("Retry-After")), nil
	}
	a.refused = true
	return a, false, 0, nil
}

// retryAfter returns how long an endpoint asks to wait, in seconds or up to a date.
func retryAfter(s string) time.Duration {
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// fieldOf returns the last field of that number of a message of protobuf: its bytes, or its number.
func fieldOf(b []byte, number protowire.Number) (value []byte, n int64) {
	for len(b) > 0 {
		num, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return value, n
		}
		b = b[size:]
		if size = protowire.ConsumeFieldValue(num, kind, b); size < 0 {
			return value, n
		}
		if num == number {
			switch kind {
			case protowire.BytesType:
				value, _ = protowire.ConsumeBytes(b)
			case protowire.VarintType:
				v, _ := protowire.ConsumeVarint(b)
				n = int64(v)
			}
		}
		b = b[size:]
	}
	return value, n
}
