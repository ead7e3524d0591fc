package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/text/quantity"
	"github.com/entrace-go/entrace/remote"
)

// receiveFlags are the flags of receive.
type receiveFlags struct {
	listen, dir, tokenEnv   string
	cert, key, clientCA     string
	connections, perAddress int
	maxFiles                int
	maxBytes                quantity.Bytes
	otlp                    otlpFlags
	changed                 func(flag string) bool // reports whether the command line has a flag
}

func receiveCommand() *command {
	d := remote.Defaults()
	f := &receiveFlags{maxBytes: quantity.Bytes(d.MaxBytes), otlp: otlpFlags{request: 16 << 20}}
	return &command{
		use:   "receive",
		short: "Receive traces over the network",
		long: `receive records the traces that other programs send over the network.

  entrace receive --otlp --dir traces                           from OpenTelemetry's SDKs, a file for each service
  entrace receive --listen unix:///run/entrace.sock             from programs with entrace
  entrace receive --listen tls://0.0.0.0:4410 --tls-cert cert.pem --tls-key key.pem --token-env TOKEN

Programs with entrace send if OTEL_EXPORTER_ENTRACE_ENDPOINT is set; ENTRACE's own clients can send as well.
receive writes the trace of each connection to an IET in the folder, which only you can read. When the sender
has gone, the IET becomes an ET. If receive is killed, 'entrace recover' finishes its files. receive prints a
line for each trace, and ends when you interrupt it.

--listen takes tcp://HOST:PORT, tls://HOST:PORT, unix:///PATH or HOST:PORT. An address that other machines can
reach needs a token or client certificates. The token has 16 to 256 bytes and is in the environment variable
that --token-env names; senders read it from OTEL_EXPORTER_ENTRACE_TOKEN. --tls-cert and --tls-key encrypt the
connection, but do not authenticate senders; --client-ca does.

When the folder reaches --max-bytes or --max-files, or the disk is full, receive ends growing traces after
their last complete entry, and refuses new senders until somebody removes files.

With --otlp, receive also accepts OTLP at the ports to which SDKs send by default. It writes a file for each
service, and distinguishes services by service.name and service.instance.id, or by process.pid and host.name.
It answers a request when the records would survive a kill of receive. If the folder is full, it answers with
503, and the sender tries again. OTLP senders need the token in
OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer TOKEN".`,
		args: cobra.NoArgs,
		flags: func(flags *pflag.FlagSet) {
			f.changed = flags.Changed
			flags.StringVar(&f.listen, "listen", "tcp://127.0.0.1", "where to listen; the default port is 6142; with --otlp, the address may be empty")
			flags.StringVar(&f.dir, "dir", ".", "the folder for the traces, created if missing")
			flags.StringVar(&f.tokenEnv, "token-env", "OTEL_EXPORTER_ENTRACE_TOKEN", "the environment variable with the token, empty for none")
			flags.StringVar(&f.cert, "tls-cert", "", "the certificate of this server, a PEM file")
			flags.StringVar(&f.key, "tls-key", "", "the key of --tls-cert, a PEM file")
			flags.StringVar(&f.clientCA, "client-ca", "", "accept only senders with a certificate of these authorities, a PEM file")
			flags.IntVar(&f.connections, "max-connections", 0, "maximum number of connections to each port; 0 means 64, and 1024 for OTLP, where a new connection replaces the one that was idle longest")
			flags.IntVar(&f.perAddress, "max-per-address", 0, "maximum number of connections from one machine; 0 means a quarter of all, and no limit for this machine")
			flags.Var(&f.maxBytes, "max-bytes", "total size of the traces in the folder; 0 is no limit")
			flags.IntVar(&f.maxFiles, "max-files", d.MaxFiles, "number of traces in the folder; 0 is no limit")
			f.otlp.add(flags)
			for _, flag := range []string{"tls-cert", "tls-key", "client-ca"} {
				if err := cobra.MarkFlagFilename(flags, flag, "pem", "crt", "key"); err != nil {
					panic(err) // the flag is not there
				}
			}
			if err := cobra.MarkFlagDirname(flags, "dir"); err != nil {
				panic(err) // the flag is not there
			}
		},
		run: f.run,
	}
}

func (f *receiveFlags) run(ctx context.Context, c *console, _ []string) error {
	if f.changed("token-env") && f.tokenEnv != "" && os.Getenv(f.tokenEnv) == "" {
		return usagef("--token-env: the variable %s is not set", f.tokenEnv)
	}
	config, err := f.tls()
	if err != nil {
		return err
	}
	c = c.locked()
	if f.connections < 0 || f.perAddress < 0 || f.maxFiles < 0 {
		return usagef("--max-connections, --max-per-address and --max-files must not be below 0")
	}
	r := remote.Receiver{
		Dir: f.dir, TLS: config, MaxConnections: f.connections, MaxPerAddress: f.perAddress,
		MaxBytes: noBound(int64(f.maxBytes)), MaxFiles: noBound(f.maxFiles), Token: os.Getenv(f.tokenEnv),
	}
	var told repeats
	r.OnReceived = func(x remote.Received) {
		if x.Path == "" && x.Err != nil && x.Sender != nil {
			host, _, _ := net.SplitHostPort(x.Sender.String())
			if !told.isNew(host + x.Err.Error()) {
				return // the sender retries, with the same error each time
			}
		}
		received(c, x)
	}
	r.OnBegun = func(x remote.Received) {
		c.say("%s: from %s", x.Path, describe(x.Sender))
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	if f.otlp.on && f.listen == "" {
		return f.serveOTLP(ctx, c, r.Token, config)
	}
	l, err := r.Listen(f.listen)
	if err != nil {
		return err
	}
	c.say("listening at %s", describe(l.Addr()))
	if !f.otlp.on {
		return r.Serve(ctx, l)
	}
	// When one of the two servers ends, end the other server.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	served := make(chan error, 1)
	go func() {
		defer stop()
		served <- r.Serve(ctx, l)
	}()
	err = f.serveOTLP(ctx, c, r.Token, config)
	stop()
	return errors.Join(err, <-served)
}

// repeatAfter is the time in which the same error of one address is not printed again. maxTold is the maximum
// number of printed errors that are remembered.
const (
	repeatAfter = time.Minute
	maxTold     = 1000
)

// noBound converts the value of a flag to an option of package remote: "no bound" is 0 in a flag and -1
// in the package.
func noBound[T int | int64](flag T) T {
	if flag == 0 {
		return -1
	}
	return flag
}

// received prints the result of a connection: the file to the standard output, and the error to stderr.
func received(c *console, x remote.Received) {
	if x.Path != "" {
		fmt.Fprintf(c.out, "%s\t%d entries\t%d bytes\n", show.Safe(x.Path), x.Entries, x.Bytes)
	}
	if x.Err != nil {
		what := describe(x.Sender)
		if x.Path != "" {
			what = x.Path + ": " + what
		}
		c.say("%s: %s", what, x.Err)
	}
}

func describe(a net.Addr) string {
	if a == nil || a.String() == "" {
		return "a local sender"
	}
	return a.Network() + "://" + a.String()
}

// tls returns the TLS configuration of the flags, or nil if no flag requests TLS.
func (f *receiveFlags) tls() (*tls.Config, error) {
	if (f.cert == "") != (f.key == "") {
		return nil, usagef("--tls-cert and --tls-key must be used together")
	}
	if f.cert == "" {
		if f.clientCA != "" {
			return nil, usagef("--client-ca needs --tls-cert and --tls-key")
		}
		if len(f.listen) > 6 && f.listen[:6] == "tls://" {
			return nil, usagef("--listen tls:// needs --tls-cert and --tls-key")
		}
		return nil, nil
	}
	cert, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}}
	if f.clientCA != "" {
		pem, err := os.ReadFile(f.clientCA)
		if err != nil {
			return nil, err
		}
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: the file has no PEM certificate", f.clientCA)
		}
	}
	return c, nil
}
