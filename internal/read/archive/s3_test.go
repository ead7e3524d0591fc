package archive_test

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/entrace-go/entrace/internal/read/archive"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// A bucket is an S3 server with one bucket. It accepts any signature.
type bucket struct {
	mu      sync.Mutex
	objects map[string]string // by path
	puts    []string
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !strings.HasPrefix(r.URL.Path, "/kept/"):
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchBucket</Code><Message>there is no such bucket</Message></Error>")
	case !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=key/") || !strings.Contains(r.Header.Get("Authorization"), "/mars/s3/"):
		w.WriteHeader(http.StatusForbidden)
	case r.Method == http.MethodPut:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		b.objects[r.URL.Path] = string(body)
		b.puts = append(b.puts, r.URL.Path)
	case b.objects[r.URL.Path] == "":
		w.WriteHeader(http.StatusNotFound)
	default:
		w.Header().Set("Last-Modified", "Tue, 24 Nov 2026 00:00:00 GMT")
	}
}

// start starts the server, and sets the environment variables that Open reads.
func start(t *testing.T, b *bucket) {
	t.Helper()
	s := httptest.NewTLSServer(b)
	t.Cleanup(s.Close)
	ca := hosttest.Path(t, "ca.pem")
	expect.Must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	none := hosttest.Path(t, "none")
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": s.URL, "AWS_ENDPOINT_URL_S3": "", "AWS_CA_BUNDLE": ca, "AWS_REGION": "mars", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "",
		"AWS_SHARED_CREDENTIALS_FILE": none, "AWS_CONFIG_FILE": none,
	} {
		t.Setenv(name, value)
	}
}

// TestBucketHoldsWhatAFolderDoes checks that a bucket gets the same objects as a folder, below its prefix and with
// the manifest last, and that each source is archived once.
func TestBucketHoldsWhatAFolderDoes(t *testing.T) {
	b := &bucket{objects: make(map[string]string)}
	start(t, b)
	dir, to := t.TempDir(), t.TempDir()
	record(t, filepath.Join(dir, "app.et"), "shop", "a/b=ä %")
	run(t, dir, archive.Folder(to))
	target, err := archive.Open("s3://kept/some/prefix/")
	expect.Must(t, err)
	run(t, dir, target)
	got := make(map[string]string)
	for name, content := range b.objects {
		got[strings.TrimPrefix(name, "/kept/some/prefix/")] = content
	}
	sameFiles(t, got, files(t, to))
	if len(b.puts) != 5 || !strings.HasSuffix(b.puts[4], ".json") {
		t.Errorf("it wrote %q, want four objects and then the manifest", b.puts)
	}
	if got := run(t, dir, target); !slices.Equal(got, []string{"app.et: before"}) || len(b.puts) != 5 {
		t.Errorf("a second run: got %q, and %d objects were written", got, len(b.puts))
	}
}

// TestCredentialsOfAProfile checks that credentials come from the file that AWS_PROFILE selects, as in other
// programs.
func TestCredentialsOfAProfile(t *testing.T) {
	b := &bucket{objects: make(map[string]string)}
	start(t, b)
	file := hosttest.Path(t, "credentials")
	expect.Must(t, os.WriteFile(file, []byte("[backup]\naws_access_key_id = key\naws_secret_access_key = secret\n"), 0o600))
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	t.Setenv("AWS_PROFILE", "backup")
	dir := t.TempDir()
	record(t, filepath.Join(dir, "app.et"), "shop")
	target, err := archive.Open("s3://kept")
	expect.Must(t, err)
	run(t, dir, target)
	expect.Len(t, b.puts, 3, "two objects and a manifest")
}

func TestErrorsOfS3SayWhatToDo(t *testing.T) {
	for name, x := range map[string]struct {
		to   string
		env  [2]string
		want string
	}{
		"no bucket of the name": {"s3://other/x", [2]string{}, "write s3://other/x/service=shop/day=2026-11-24/"},
		"refused":               {"s3://kept/x", [2]string{"AWS_ACCESS_KEY_ID", "else"}, "look for s3://kept/x/_manifest/"},
		"no credentials":        {"s3://kept/x", [2]string{"AWS_SECRET_ACCESS_KEY", ""}, "no credentials for S3: set AWS_ACCESS_KEY_ID"},
		"no bucket":             {"s3:///x", [2]string{}, "s3:///x has no bucket"},
		"no target":             {"gs://kept", [2]string{}, "gs://kept is not a target"},
		"no endpoint":           {"s3://kept", [2]string{"AWS_ENDPOINT_URL", "localhost:9000"}, `AWS_ENDPOINT_URL is "localhost:9000"`},
		"no certificates":       {"s3://kept", [2]string{"AWS_CA_BUNDLE", "s3_test.go"}, "s3_test.go has no PEM certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			start(t, &bucket{objects: make(map[string]string)})
			if x.env[0] != "" {
				t.Setenv(x.env[0], x.env[1])
			}
			dir := t.TempDir()
			record(t, filepath.Join(dir, "app.et"), "shop")
			target, err := archive.Open(x.to)
			if err == nil {
				err = archive.Run(t.Context(), dir, target, archive.Options{})
			}
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("got %v, want %s…", err, x.want)
			}
		})
	}
}
