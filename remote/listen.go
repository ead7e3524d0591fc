package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/entrace-go/entrace/internal/file/osfile"
)

// Listen listens at an endpoint: tcp://host:port, tls://host:port, unix:///path or host:port. The default port is
// 6142. Only the same user can connect to a unix socket. A socket of a dead process at the path is replaced. The
// scheme tls:// does not turn on TLS; set r.TLS for this. Listen returns an error if Serve would refuse the
// listener.
func (r *Receiver) Listen(target string) (net.Listener, error) {
	l, err := listen(target)
	if err != nil {
		return nil, err
	}
	sv := server{Receiver: *r}
	if err := sv.check(l); err != nil {
		return nil, errors.Join(fmt.Errorf("receive at %s: %w", target, err), l.Close())
	}
	return l, nil
}

func listen(target string) (net.Listener, error) {
	if !strings.Contains(target, "://") {
		target = "tcp://" + target
	}
	e, err := parseEndpoint(target)
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	if e.network == "unix" {
		return listenUnix(e.address)
	}
	return net.Listen(e.network, e.address) //nolint:noctx // it does not wait
}

// A socket is a listener on the unix socket at path. Close removes the socket's file.
type socket struct {
	*net.UnixListener

	path    string
	removed sync.Once
}

func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

func (s *socket) Close() error {
	s.removed.Do(func() { _ = os.Remove(s.path) }) // before Close, because afterwards another process may have a socket there
	return s.UnixListener.Close()
}

// listenUnix creates a socket in a folder that only the user can access. Once its permissions allow only the user
// to connect, listenUnix moves the socket to path.
func listenUnix(path string) (net.Listener, error) {
	if err := removeDead(path); err != nil {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".s*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	tmp := filepath.Join(dir, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: tmp, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	err = os.Chmod(tmp, 0o600)
	if err == nil {
		err = osfile.RenameNew(tmp, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return &socket{UnixListener: l, path: path}, nil
}

// removeDead removes the socket at path if no process listens on it.
func removeDead(path string) error {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case fi.Mode().Type() != fs.ModeSocket:
		return fs.ErrExist
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		return errors.Join(errors.New("another process already listens on this address"), c.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) { // a process uses the socket, or this process may not connect
		return err
	}
	return os.Remove(path)
}
