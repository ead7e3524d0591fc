package receive

import (
	"cmp"
	"context"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"mime"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/otel/listener"
)

// metrics is the signal of metrics requests, which are not passed to a Sink.
const metrics = codec.Logs + 1

// A Sink records requests. Take is called concurrently and must not keep b. If b is damaged, the error is a
// *DamageError, and the records before the damage are recorded. If b has more records than its size justifies, the
// *DamageError wraps [codec.ErrMany], and nothing is recorded. If nothing was recorded and the sender may try
// again, the error is [ErrFull].
type Sink interface {
	Take(ctx context.Context, s codec.Signal, e codec.Encoding, b []byte) (Result, error)
}

// A DamageError is the error of a request that is not valid OTLP.
type DamageError struct{ Err error }

func (e *DamageError) Error() string { return e.Err.Error() }

// Unwrap returns e.Err.
func (e *DamageError) Unwrap() error { return e.Err }

// Options configure a Server.
type Options struct {
	// MaxRequest is the maximum size in bytes of a request after decompression. The default is 16 MiB.
	MaxRequest int64
	// MaxMemory is the maximum total size in bytes of the requests that are being read or recorded. The default is
	// 256 MiB.
	MaxMemory int64
	// Timeout is the time limit for the arrival of the body of a request. The default is 30 seconds.
	Timeout time.Duration
	// Token, if set, must be in each request, as "Authorization: Bearer TOKEN".
	Token string
	// TLS, if set, encrypts every connection.
	TLS *tls.Config
	// MaxConnections is the maximum number of connections, MaxPerAddress the maximum number from one address. The
	// defaults are 1,024 and a quarter of MaxConnections. With the default of MaxPerAddress, loopback addresses have
	// no limit.
	MaxConnections, MaxPerAddress int
	// Local makes the Server accept only programs on this machine. The Host of an HTTP request must name this
	// machine or be in Hosts, so that a web page cannot reach the Server by a host name that resolves to this
	// machine. Web pages cannot use gRPC.
	Local bool
	Hosts []string
	// Tell, if set, is called with messages for the operator of the server. It may be called many times with the
	// same message.
	Tell func(text string)
}

// A Server is an http.Handler for OTLP.
type Server struct {
	o      Options
	sink   Sink
	memory atomic.Int64 // memory of requests in bytes

	metrics atomic.Int64 // number of requests with metrics
	last    atomic.Int64 // when the last request arrived; 0: none
}

// NewServer returns a Server that passes requests to sink.
func NewServer(sink Sink, o Options) *Server {
	o.MaxRequest = cmp.Or(o.MaxRequest, 16<<20)
	o.MaxMemory = max(cmp.Or(o.MaxMemory, 256<<20), 2*o.MaxRequest)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.MaxConnections = cmp.Or(o.MaxConnections, 1024)
	return &Server{o: o, sink: sink}
}

// Metrics returns the number of requests with metrics that were received.
func (s *Server) Metrics() int64 { return s.metrics.Load() }

// Last returns when the last request arrived, in nanoseconds since 1970. It returns 0 if no request has arrived.
func (s *Server) Last() int64 { return s.last.Load() }

// Limits of the server.
const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	maxStreams    = 128 // maximum number of simultaneous requests on one connection
	closeGrace    = 5 * time.Second
)

// connKey is the key in a request's context for its net.Conn.
type connKey struct{}

// Serve answers requests on connections of l until ctx is done. After that, it answers the requests that have already
// arrived, and returns. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	h := &http.Server{
		Handler: s, Protocols: protocols, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog:    log.New(s, "", 0),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		ConnState:   func(c net.Conn, state http.ConnState) { listener.Busy(c, state == http.StateActive) },
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeGrace)
		defer cancel()
		if h.Shutdown(late) != nil {
			_ = h.Close() // a client is too slow
		}
	})
	defer func() {
		if !stop() {
			<-ended // h.Serve does not wait for running requests
		}
	}()
	l = listener.New(l, listener.Bounds{Connections: s.o.MaxConnections, PerAddress: s.o.MaxPerAddress, Token: s.guarded()})
	var err error
	if s.o.TLS != nil {
		h.TLSConfig = listener.Secure(s.o.TLS) // a copy, because net/http adds HTTP/2 to it
		err = h.ServeTLS(l, "", "")
	} else {
		err = h.Serve(l)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" && r.Method == http.MethodGet {
		_, _ = io.WriteString(w, "ok\n")
		return
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	encoding := codec.Protobuf
	if kind == "application/json" {
		encoding = codec.JSON
	}
	var a answer = &httpAnswer{w: w, encoding: encoding}
	grpc := r.ProtoMajor == 2 && (kind == "application/grpc" || kind == "application/grpc+proto")
	if grpc {
		a = &grpcAnswer{w: w}
	}
	signal, known := signalOf(r.URL.Path, grpc)
	switch {
	case isGRPCWeb(r, kind):
		const text = "gRPC-Web is not supported: send OTLP over HTTP, to /v1/traces or /v1/logs, or over gRPC"
		s.tell(text)
		w.Header().Set("Grpc-Status", strconv.Itoa(statusOf(http.StatusUnsupportedMediaType)))
		w.Header().Set("Grpc-Message", text)
		a.fail(http.StatusUnsupportedMediaType, text)
	case !known:
		a.fail(http.StatusNotFound, "no such service: "+r.URL.Path)
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		a.fail(http.StatusMethodNotAllowed, "expected a POST request")
	case r.Header.Get("Origin") != "":
		a.fail(http.StatusForbidden, "requests from web pages are refused")
	case s.o.Local && !grpc && !s.knows(r.Host):
		text := fmt.Sprintf("requests for the host %.100q are refused: --allow-host allows a host", r.Host)
		s.tell(text)
		a.fail(http.StatusForbidden, text)
	case !s.mayEnter(r):
		w.Header().Set("WWW-Authenticate", "Bearer")
		a.fail(http.StatusUnauthorized, "the token is missing or wrong")
	case !grpc && !slices.Contains(mediaTypes[:], kind):
		a.fail(http.StatusUnsupportedMediaType, "expected application/x-protobuf or application/json")
	default:
		if c, ok := r.Context().Value(connKey{}).(net.Conn); ok && s.guarded() {
			listener.Trust(c, false)
		}
		s.take(w, r, a, signal, encoding, grpc)
	}
}

// isGRPCWeb reports whether r is a request of gRPC-Web, or asks whether a browser may send such a request.
func isGRPCWeb(r *http.Request, kind string) bool {
	asked := r.Header.Get("Access-Control-Request-Headers")
	return strings.HasPrefix(kind, "application/grpc-web") || strings.Contains(strings.ToLower(asked), "x-grpc-web")
}

// knows reports whether the Host header host names this machine or is in Options.Hosts.
func (s *Server) knows(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	return listener.LocalHost(host) || slices.ContainsFunc(s.o.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

func (s *Server) tell(text string) {
	if s.o.Tell != nil {
		s.o.Tell(text)
	}
}

// Write implements io.Writer. It receives the log of net/http.
func (s *Server) Write(line []byte) (int, error) {
	s.tell(strings.TrimSpace(string(line)))
	return len(line), nil
}

var mediaTypes = [...]string{"application/x-protobuf", "application/protobuf", "application/json"}

// signalOf returns the signal for the path of a request.
func signalOf(path string, grpc bool) (codec.Signal, bool) {
	paths := &httpPaths
	if grpc {
		paths = &grpcPaths
	}
	i := slices.Index(paths[:], path)
	return codec.Signal(max(i, 0)), i >= 0
}

var (
	httpPaths = [...]string{"/v1/traces", "/v1/logs", "/v1/metrics"}
	grpcPaths = [...]string{
		"/opentelemetry.proto.collector.trace.v1.TraceService/Export",
		"/opentelemetry.proto.collector.logs.v1.LogsService/Export",
		"/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
	}
)

func (s *Server) take(w http.ResponseWriter, r *http.Request, a answer, signal codec.Signal, e codec.Encoding, grpc bool) {
	// The error means that the connection has no deadlines, which happens in tests.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.o.Timeout))
	s.last.Store(time.Now().UnixNano())
	b := body{server: s}
	defer b.release()
	var err error
	if grpc {
		err = b.readCall(r.Body, r.Header.Get("Grpc-Encoding"))
	} else {
		err = b.readBody(r.Body, r.Header.Get("Content-Encoding"), r.ContentLength)
	}
	if err != nil {
		code := http.StatusBadRequest
		if f, ok := errors.AsType[*bodyError](err); ok {
			code = f.code
		}
		a.fail(code, err.Error())
		return
	}
	if signal == metrics {
		s.metrics.Add(1)
		a.done(signal, Result{})
		return
	}
	done, err := s.sink.Take(r.Context(), signal, e, b.data)
	switch {
	case err == nil:
		a.done(signal, done)
	case errors.Is(err, codec.ErrMany):
		a.fail(http.StatusRequestEntityTooLarge, err.Error())
	case errors.Is(err, ErrFull):
		a.fail(http.StatusServiceUnavailable, err.Error())
	default:
		if _, damaged := errors.AsType[*DamageError](err); damaged {
			a.fail(http.StatusBadRequest, err.Error()+"; "+strconv.Itoa(done.Taken)+" earlier records were accepted")
			return
		}
		a.fail(http.StatusInternalServerError, err.Error())
	}
}

// guarded reports whether clients must authenticate by token or certificate.
func (s *Server) guarded() bool { return s.o.Token != "" || listener.RequiresCertificate(s.o.TLS) }

func (s *Server) mayEnter(r *http.Request) bool {
	if s.o.Token == "" {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(token), []byte(s.o.Token)) == 1
}
