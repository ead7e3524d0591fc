package replay

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/text"
)

const (
	firstWait = time.Second      // wait before the second try
	longest   = 30 * time.Second // longest wait between tries, except if the endpoint requests more
	patience  = time.Minute      // a request is not tried again after this time

	maxAnswer  = 64 << 10 // number of bytes of an answer that are read
	maxMessage = 500      // number of bytes of a message that are shown
)

// ErrUnreachable is returned if the endpoint does not answer.
var ErrUnreachable = errors.New("the endpoint cannot be reached")

// An answer is the endpoint's answer to a request.
type answer struct {
	refused  bool  // the whole request was refused
	rejected int64 // number of records of the request that were refused
	message  string
	again    bool          // the endpoint may accept the request if it is sent again
	asked    time.Duration // the wait that the endpoint requests; 0: none
}

// A sender sends requests one after another.
type sender struct {
	body     bytes.Buffer
	zip      *gzip.Writer
	answered bool // the endpoint has answered an earlier request, so it can be reached
}

// post sends a message until the endpoint accepts it, refuses it, or has not accepted it for too long.
func (s *sender) post(ctx context.Context, t *Target, sig codec.Signal, message []byte) (answer, error) {
	d := &t.signals[sig]
	body, err := s.compress(d, message)
	if err != nil {
		return answer{}, err
	}
	begun := time.Now()
	for wait := firstWait; ; wait = min(2*wait, longest) {
		a, err := s.try(ctx, d, body)
		switch {
		case ctx.Err() != nil:
			return a, context.Cause(ctx)
		case err == nil:
			s.answered = true
			if !a.again {
				return a, nil
			}
		case !s.answered:
			return a, fmt.Errorf("%w: %w", ErrUnreachable, err)
		}
		pause := a.asked
		if pause == 0 {
			pause = wait/2 + rand.N(wait) //nolint:gosec // G404: random, so that many senders do not try again at the same time
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

// try sends a request once. The error is an error of the network.
func (s *sender) try(ctx context.Context, d *destination, body []byte) (a answer, err error) {
	if d.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.timeout)
		defer cancel()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header = d.headers.Clone()
	req.Header.Set("Content-Type", protobufType)
	req.Header.Set("User-Agent", "entrace-replay")
	if d.gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return a, err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")) // "" if there is none
	if resp.StatusCode/100 == 2 {
		if a.accepted(kind, b) {
			return a, nil
		}
		a.refused = true
		a.message = text.Cut(fmt.Sprintf("%s, but the answer is not one of OTLP (content type %q): %s", resp.Status, kind, bytes.TrimSpace(b)), maxMessage)
		return a, nil
	}
	message := b
	if kind == protobufType { // a google.rpc.Status
		message, _ = fieldOf(b, 2)
	}
	a.message = text.Cut(strings.TrimSpace(resp.Status+": "+strings.TrimSpace(string(message))), maxMessage)
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		a.again, a.asked = true, retryAfter(resp.Header.Get("Retry-After"))
	default:
		a.refused = true
	}
	return a, nil
}

const protobufType = "application/x-protobuf"

// accepted reads the body of an answer with a status of success. It returns false if the body is not a response of
// OTLP, for example if it is a login page: such a body does not say that the endpoint has accepted the records. A
// body of zero bytes is an empty response in protobuf.
func (a *answer) accepted(kind string, body []byte) bool {
	var message string
	switch {
	case kind == protobufType || kind == "" && len(body) == 0:
		if !isMessage(body) {
			return false
		}
		partial, _ := fieldOf(body, 1)
		_, a.rejected = fieldOf(partial, 1)
		b, _ := fieldOf(partial, 2)
		message = string(b)
	case kind == "application/json":
		var response struct {
			Partial *struct {
				Spans   json.Number `json:"rejectedSpans"`
				Logs    json.Number `json:"rejectedLogRecords"`
				Message string      `json:"errorMessage"`
			} `json:"partialSuccess"`
		}
		d := json.NewDecoder(bytes.NewReader(body))
		d.DisallowUnknownFields() // an error of a proxy may also be an object
		if d.Decode(&response) != nil {
			return false
		}
		if p := response.Partial; p != nil {
			a.rejected, _ = cmp.Or(p.Spans, p.Logs, "0").Int64()
			message = p.Message
		}
	default:
		return false
	}
	a.message = text.Cut(message, maxMessage)
	return true
}

// isMessage reports whether b is a complete message in protobuf.
func isMessage(b []byte) bool {
	for len(b) > 0 {
		_, _, n := protowire.ConsumeField(b)
		if n < 0 {
			return false
		}
		b = b[n:]
	}
	return true
}

// retryAfter returns the wait that a Retry-After header requests, in seconds or as a date. 0 means none.
func retryAfter(s string) time.Duration {
	if n, err := strconv.ParseUint(s, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// fieldOf returns the value of a field in a protobuf message: its bytes or its integer. If the field is repeated,
// fieldOf returns the last value.
func fieldOf(b []byte, number protowire.Number) (value []byte, n int64) {
	for len(b) > 0 {
		num, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return value, n
		}
		b = b[size:]
		size = protowire.ConsumeFieldValue(num, kind, b)
		if size < 0 {
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
