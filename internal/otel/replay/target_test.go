package replay_test

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/otel/replay"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// clean unsets OpenTelemetry's environment variables.
func clean(t *testing.T) {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
}

const prefix = "OTEL_EXPORTER_OTLP_"

// TestEndpointOfTheEnvironment checks the endpoint. The path of a signal is added to an endpoint for both signals,
// but not to the endpoint of one signal. The flag overrides both.
func TestEndpointOfTheEnvironment(t *testing.T) {
	for _, test := range []struct {
		flag string
		env  map[string]string
		want string // "": an error is expected
	}{
		{"", nil, "http://localhost:4318/v1/traces and http://localhost:4318/v1/logs"},
		{"", map[string]string{"ENDPOINT": "https://o:1/x/"}, "https://o:1/x/v1/traces and https://o:1/x/v1/logs"},
		{"", map[string]string{"ENDPOINT": "http://o", "LOGS_ENDPOINT": "http://l/in"}, "http://o/v1/traces and http://l/in"},
		{"http://f", map[string]string{"ENDPOINT": "http://o", "LOGS_ENDPOINT": "http://l/in"}, "http://f/v1/traces and http://f/v1/logs"},
		{"http://f/v1/traces", nil, "http://f/v1/traces and http://f/v1/logs"},
		{"http://u:secret@f?k=v", nil, "http://u:xxxxx@f/v1/traces?k=v and http://u:xxxxx@f/v1/logs?k=v"},
		{"localhost:4318", nil, ""},
		{"ftp://x", nil, ""},
		{"http://", nil, ""},
		{"", map[string]string{"ENDPOINT": "http://o:4317", "PROTOCOL": "grpc"}, ""},
		{"http://f", map[string]string{"ENDPOINT": "http://o:4317", "PROTOCOL": "grpc"}, "http://f/v1/traces and http://f/v1/logs"},
		{"", map[string]string{"HEADERS": "novalue"}, ""},
		{"", map[string]string{"HEADERS": "a=%zz"}, ""},
		{"", map[string]string{"TIMEOUT": "soon"}, ""},
		{"", map[string]string{"COMPRESSION": "zstd"}, ""},
		{"", map[string]string{"CERTIFICATE": "nosuch.pem"}, ""},
		{"", map[string]string{"CLIENT_KEY": "nosuch.pem"}, ""},
	} {
		t.Run(test.want, func(t *testing.T) {
			clean(t)
			for name, value := range test.env {
				t.Setenv(prefix+name, value)
			}
			to, err := replay.NewTarget(test.flag, nil)
			if (err == nil) != (test.want != "") {
				t.Fatalf("%q, %v: the error is %v", test.flag, test.env, err)
			}
			if err == nil && to.String() != test.want {
				t.Errorf("%q, %v: it goes to %s, want %s", test.flag, test.env, to, test.want)
			}
		})
	}
	clean(t)
	for _, header := range []string{"a", "=b", "a b=c", "a=b\nc"} {
		if _, err := replay.NewTarget("", []string{header}); err == nil {
			t.Errorf("the header %q is no error", header)
		}
	}
}

// TestRequestIsOfTheEnvironment checks the headers, the compression and the trusted certificate.
func TestRequestIsOfTheEnvironment(t *testing.T) {
	clean(t)
	var got http.Header
	s := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() }))
	defer s.Close()
	certificate := hosttest.Path(t, "ca.pem")
	must(t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	v := viewOf(t, spansOf(1, 0), nil)
	t.Setenv(prefix+"HEADERS", "Api-Key=of%20all, other = 1")
	t.Setenv(prefix+"LOGS_HEADERS", "Api-Key=of logs")
	for _, test := range []struct{ compression, want string }{{"", "gzip"}, {"none", ""}} {
		t.Setenv(prefix+"TRACES_CERTIFICATE", certificate)
		t.Setenv(prefix+"COMPRESSION", test.compression)
		to, err := replay.NewTarget(s.URL, []string{"Tenant=a=b", "other=2"})
		must(t, err)
		_, err = replay.Run(t.Context(), v, &replay.Options{Target: to})
		must(t, err)
		for name, want := range map[string]string{
			"Api-Key": "of all", "Other": "2", "Tenant": "a=b", "Content-Encoding": test.want, "Content-Type": "application/x-protobuf",
		} {
			expect.Equal(t, got.Get(name), want, "%s", name)
		}
	}
	t.Setenv(prefix+"TRACES_CERTIFICATE", "")
	to, err := replay.NewTarget(s.URL, nil)
	must(t, err)
	if _, err := replay.Run(t.Context(), v, &replay.Options{Target: to}); err == nil {
		t.Error("a certificate that nobody trusts is no error")
	}
}
