package convert

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/unicode"

	"github.com/entrace-go/entrace/format"
)

const bomUTF8 = "\xef\xbb\xbf" // a byte order mark

// These functions report how a file that begins with head is wrapped.
var (
	isGzip  = begins("\x1f\x8b")
	isZstd  = begins("\x28\xb5\x2f\xfd")
	isUTF8  = begins(bomUTF8)
	isUTF16 = begins("\xff\xfe", "\xfe\xff")
)

// maxWrapped is the maximum number of layers around a trace, such as compression.
const maxWrapped = 3

func isCompressed(head []byte) bool { return isGzip(head) || isZstd(head) }

// isFramed reports whether a file is a sequence of messages, each compressed by zstd and each after its length. The
// file exporter of OpenTelemetry's Collector writes such files.
func isFramed(head []byte) bool {
	return len(head) > frameSize && head[0] < 0x0a && isZstd(head[frameSize:])
}

// isWrapped reports whether a file that begins with head must be unwrapped.
func isWrapped(head []byte) bool {
	return isCompressed(head) || isFramed(head) || isUTF8(head) || isUTF16(head)
}

// unwrapped returns the content of r, whose first bytes are head, without one layer: decompressed, or as UTF-8
// without a byte order mark.
func unwrapped(r io.Reader, head []byte) (io.ReadCloser, error) {
	switch {
	case isGzip(head):
		return gzip.NewReader(r)
	case isZstd(head):
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	case isFramed(head):
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxFrame))
		return &frameReader{r: r, d: d}, err
	case isUTF8(head):
		_, err := io.ReadFull(r, make([]byte, len(bomUTF8)))
		return io.NopCloser(r), err
	}
	return io.NopCloser(unicode.UTF16(unicode.BigEndian, unicode.ExpectBOM).NewDecoder().Reader(r)), nil
}

const (
	frameSize = 4 // size in bytes of the length before a message
	maxFrame  = 64 << 20
)

// A frameReader reads the messages of a file for which isFramed is true. It returns JSON as lines, and protobuf
// with the length before each message.
type frameReader struct {
	r      io.Reader
	d      *zstd.Decoder
	buf    []byte
	rest   []byte
	damage error // the error of the first message that cannot be read
}

func (f *frameReader) Close() error {
	f.d.Close()
	return nil
}

func (f *frameReader) Read(b []byte) (int, error) {
	for len(f.rest) == 0 {
		var size [frameSize]byte
		if _, err := io.ReadFull(f.r, size[:]); err != nil {
			return 0, cmp.Or(f.damage, err)
		}
		n := int64(binary.BigEndian.Uint32(size[:]))
		if n > maxFrame {
			return 0, fmt.Errorf("%w of %d bytes: %w", errWrapped, n, format.ErrTooLarge)
		}
		var frame bytes.Buffer
		if _, err := io.CopyN(&frame, f.r, n); errors.Is(err, io.EOF) {
			return 0, io.ErrUnexpectedEOF
		} else if err != nil {
			return 0, err
		}
		out, err := f.d.DecodeAll(frame.Bytes(), append(f.buf[:0], size[:]...))
		if err != nil {
			f.damage = cmp.Or(f.damage, fmt.Errorf("%w: %w", errWrapped, err))
			continue
		}
		if len(out) == frameSize {
			continue
		}
		f.buf, f.rest = out, out
		if out[frameSize] == '{' {
			f.rest = append(out[frameSize:], '\n')
		} else {
			binary.BigEndian.PutUint32(out, uint32(len(out)-frameSize))
		}
	}
	n := copy(b, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// maxFactor is the maximum ratio of decompressed to compressed size.
const maxFactor = 256

var errFactor = fmt.Errorf("the content is more than %d times larger than the compressed file: the rest is not read", maxFactor)

// A byteCounter counts the bytes of r.
type byteCounter struct {
	r io.Reader
	n int64
}

func (c *byteCounter) Read(p []byte) (n int, err error) {
	n, err = c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// A boundedReader returns an error when it has read maxFactor times as many bytes as were read from in.
type boundedReader struct {
	r  io.Reader
	in *byteCounter
	n  int64
}

func (b *boundedReader) Read(p []byte) (n int, err error) {
	if b.n > maxFactor*b.in.n {
		return 0, errFactor
	}
	n, err = b.r.Read(p)
	b.n += int64(n)
	return n, err
}

// errWrapped is returned for a message that cannot be decompressed.
var errWrapped = errors.New("damaged message")

// isCut reports whether err says that compressed input is incomplete.
func isCut(err error) bool {
	for _, of := range []error{errWrapped, errFactor, io.ErrUnexpectedEOF, gzip.ErrChecksum, gzip.ErrHeader, zip.ErrChecksum, zip.ErrFormat, zstd.ErrCRCMismatch, zstd.ErrMagicMismatch} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// A wholeReader reads the intact part of r, which is compressed, and stores in cut why the rest is missing.
type wholeReader struct {
	r   io.Reader
	cut *error
}

func (w *wholeReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if isCut(err) {
		*w.cut, err = err, io.EOF
	}
	return n, err
}
