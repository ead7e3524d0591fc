package receive

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/internal/otel/codec"
)

// An answer writes the answer to a request, in the protocol of the request.
type answer interface {
	done(s codec.Signal, r Result)
	// fail answers with an error. The code is an HTTP status; gRPC uses the corresponding status.
	fail(code int, text string)
}

// retryAfter is the number of seconds that a sender should wait before it tries again.
const retryAfter = 2

// refusedJSON has, for each signal, the name of the JSON field with the number of refused records.
var refusedJSON = [...]string{"rejectedSpans", "rejectedLogRecords", "rejectedDataPoints"}

// reason returns the reason for the first refused record, in UTF-8.
func reason(r *Result) string {
	if r.Why == nil {
		return ""
	}
	return strings.ToValidUTF8(r.Why.Error(), "\uFFFD")
}

// response returns an ExportTraceServiceResponse. The responses for the other signals differ only in their names.
func response(s codec.Signal, e codec.Encoding, r *Result) []byte {
	if e == codec.JSON {
		if r.Refused == 0 {
			return []byte("{}")
		}
		b, _ := json.Marshal(map[string]any{"partialSuccess": map[string]string{ // cannot fail
			refusedJSON[s]: strconv.Itoa(r.Refused), "errorMessage": reason(r),
		}})
		return b
	}
	if r.Refused == 0 {
		return nil
	}
	return appendBytes(nil, 1, counted(r.Refused, reason(r)))
}

// counted returns a protobuf message with a number and a text.
func counted(n int, text string) []byte {
	return appendBytes(appendNumber(nil, 1, n), 2, []byte(text))
}

func appendNumber(b []byte, field protowire.Number, n int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), uint64(n))
}

func appendBytes(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}

type httpAnswer struct {
	w        http.ResponseWriter
	encoding codec.Encoding
}

func (a *httpAnswer) write(code int, b []byte) {
	kind := "application/x-protobuf"
	if a.encoding == codec.JSON {
		kind = "application/json"
	}
	a.w.Header().Set("Content-Type", kind)
	a.w.Header().Set("X-Content-Type-Options", "nosniff")
	a.w.WriteHeader(code)
	_, _ = a.w.Write(b) //nolint:gosec // no page; an error means that the client is gone
}

func (a *httpAnswer) done(s codec.Signal, r Result) {
	a.write(http.StatusOK, response(s, a.encoding, &r))
}

// fail answers with a google.rpc.Status.
func (a *httpAnswer) fail(code int, text string) {
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		a.w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	if code == http.StatusRequestTimeout || code == http.StatusRequestEntityTooLarge {
		a.w.Header().Set("Connection", "close") // do not read the rest of the body
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	if a.encoding == codec.JSON {
		b, _ := json.Marshal(struct { // cannot fail
			Code    int    `json:"code"`
			Message string `json:"message"`
		}{statusOf(code), text})
		a.write(code, b)
		return
	}
	a.write(code, status(code, text, nil))
}

// status returns a google.rpc.Status.
func status(code int, text string, detail []byte) []byte {
	b := counted(statusOf(code), text)
	if detail != nil {
		b = appendBytes(b, 3, detail)
	}
	return b
}

// statusOf returns the gRPC status that corresponds to an HTTP status.
func statusOf(code int) int {
	switch code {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return 3 // INVALID_ARGUMENT
	case http.StatusRequestTimeout:
		return 4 // DEADLINE_EXCEEDED
	case http.StatusForbidden:
		return 7 // PERMISSION_DENIED
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return 14 // UNAVAILABLE: senders of OTLP try again
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType:
		return 12 // UNIMPLEMENTED
	case http.StatusUnauthorized:
		return 16 // UNAUTHENTICATED
	}
	return 13 // INTERNAL
}

type grpcAnswer struct{ w http.ResponseWriter }

func (a *grpcAnswer) done(s codec.Signal, r Result) {
	h := a.w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Trailer", "Grpc-Status, Grpc-Message")
	b := response(s, codec.Protobuf, &r)
	frame := binary.BigEndian.AppendUint32(make([]byte, 1, 5+len(b)), uint32(len(b)))
	_, _ = a.w.Write(append(frame, b...)) // an error means that the client has disconnected
	h.Set("Grpc-Status", "0")
}

// fail answers with headers only. If the sender may try again, a header says when.
func (a *grpcAnswer) fail(code int, text string) {
	h := a.w.Header()
	h.Set("Content-Type", "application/grpc")
	h.Set("Grpc-Status", strconv.Itoa(statusOf(code)))
	text = strings.ToValidUTF8(text, "\uFFFD")
	h.Set("Grpc-Message", strings.ReplaceAll(url.QueryEscape(text), "+", "%20"))
	if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
		// This is the Any of a RetryInfo, whose field 1 is a Duration.
		info := appendBytes(nil, 1, appendNumber(nil, 1, retryAfter))
		detail := appendBytes(appendBytes(nil, 1, []byte("type.googleapis.com/google.rpc.RetryInfo")), 2, info)
		h.Set("Grpc-Status-Details-Bin", base64.RawStdEncoding.EncodeToString(status(code, text, detail)))
	}
	a.w.WriteHeader(http.StatusOK)
}
