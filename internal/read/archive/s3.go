package archive

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/entrace-go/entrace/internal/file/osfile"
)

// A bucket is a target that stores objects in an S3 bucket, below a prefix.
type bucket struct {
	client       *minio.Client
	name, prefix string
}

// errNoCredentials says that there are no credentials for S3.
var errNoCredentials = errors.New("no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, " +
	"or AWS_PROFILE to a profile of ~/.aws, or give the machine a role")

// Open returns the target with the given name: s3://BUCKET/PREFIX or a folder. For S3 it reads the usual
// environment variables AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or AWS_DEFAULT_REGION, and
// AWS_CA_BUNDLE. Credentials come from environment variables, from the files that AWS_PROFILE selects, or from the
// machine or container. Open sends no request.
func Open(name string) (Target, error) {
	scheme, rest, ok := strings.Cut(name, "://")
	switch {
	case !ok:
		return Folder(name), nil
	case scheme != "s3":
		return nil, fmt.Errorf("%s is not a target: must be s3://BUCKET/PREFIX or a folder", name)
	}
	b := &bucket{}
	b.name, b.prefix, _ = strings.Cut(rest, "/")
	b.prefix = strings.Trim(b.prefix, "/")
	if b.name == "" {
		return nil, fmt.Errorf("%s has no bucket: must be s3://BUCKET/PREFIX", name)
	}
	host, secure, err := endpoint()
	if err != nil {
		return nil, err
	}
	transport, err := transport(secure)
	if err != nil {
		return nil, err
	}
	providers := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	if os.Getenv("AWS_EC2_METADATA_DISABLED") != "true" {
		providers = append(providers, &credentials.IAM{})
	}
	b.client, err = minio.New(host, &minio.Options{
		Creds: credentials.NewChainCredentials(providers), Secure: secure, Transport: transport,
		Region: cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")), MaxRetries: 5,
	})
	return b, err
}

// endpoint returns the host of S3, and whether it uses TLS.
func endpoint() (host string, secure bool, err error) {
	text := cmp.Or(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), "https://s3.amazonaws.com")
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return "", false, fmt.Errorf("AWS_ENDPOINT_URL is %q: must be a URL such as https://s3.example.com", text)
	}
	return u.Host, u.Scheme == "https", nil
}

// transport returns a transport that also trusts the certificates in AWS_CA_BUNDLE.
func transport(secure bool) (*http.Transport, error) {
	t, err := minio.DefaultTransport(secure)
	file := os.Getenv("AWS_CA_BUNDLE")
	if err != nil || file == "" || !secure {
		return t, err
	}
	pem, err := os.ReadFile(file) //nolint:gosec // G703: the user names it
	if err != nil {
		return nil, fmt.Errorf("AWS_CA_BUNDLE: %w", err)
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("AWS_CA_BUNDLE: %s has no PEM certificate", file)
	}
	t.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return t, nil
}

func (b *bucket) Has(ctx context.Context, key string) (bool, error) {
	if v, err := b.client.GetCreds(); err == nil && v.SignerType.IsAnonymous() {
		return false, errNoCredentials
	}
	_, err := b.client.StatObject(ctx, b.name, path.Join(b.prefix, key), minio.StatObjectOptions{})
	if minio.ToErrorResponse(err).StatusCode == http.StatusNotFound {
		return false, nil // the bucket may also not exist; the first write reports this
	}
	return err == nil, b.failed("look for", key, err)
}

// failed adds the failed operation and its key to err. It returns nil if err is nil.
func (b *bucket) failed(what, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s s3://%s: %w", what, path.Join(b.name, b.prefix, key), err)
}

func (b *bucket) Create(_ context.Context, key string) (Object, error) {
	spool, err := osfile.CreateSpool("")
	if err != nil {
		return nil, err
	}
	return &upload{spool, b, key}, nil
}

// An upload is an object that is first written to a temporary file, and sent when it is complete. The server
// therefore stores the whole object or nothing.
type upload struct {
	*osfile.Spool

	bucket *bucket
	key    string
}

// partBytes is the maximum size of the part of an object that one request sends.
const partBytes = 64 << 20

func (u *upload) Commit(ctx context.Context) error {
	size, err := u.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if _, err := u.Seek(0, io.SeekStart); err != nil {
		return err
	}
	b := u.bucket
	_, err = b.client.PutObject(ctx, b.name, path.Join(b.prefix, u.key), u.File, size, minio.PutObjectOptions{
		ContentType: "application/octet-stream", PartSize: partBytes, SendContentMd5: true,
	})
	return b.failed("write", u.key, err)
}

func (u *upload) Discard() { _ = u.Close() } // a closed temporary file is deleted
