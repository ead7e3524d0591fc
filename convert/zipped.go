package convert

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
)

var isZip = begins("PK\x03\x04")

// maxZipped is the maximum number of files in a ZIP.
const maxZipped = 1000

// zipped opens the traces in the file called name if it is a ZIP. The names in a ZIP are never used as paths.
func (o *opener) zipped(name string) (is bool, err error) {
	f, err := openRegular(name)
	if err != nil {
		return false, nil //nolint:nilerr // the code that opens the file next reports the error
	}
	defer f.Close()
	head, err := beginning(f)
	if err != nil || !isZip(head) {
		return false, err
	}
	fi, err := f.Stat()
	if err != nil {
		return true, err
	}
	z, err := zip.NewReader(f, fi.Size())
	if err == nil && len(z.File) > maxZipped {
		err = fmt.Errorf("more than %d files", maxZipped)
	}
	if err != nil {
		return true, fmt.Errorf("%s: %w", name, err)
	}
	if o.isAgain(name, fi) {
		return true, nil
	}
	in := folder{dir: name}
	opened := len(o.trace.files)
	content := &boundedReader{in: &byteCounter{n: fi.Size()}} // of all files together, because they may overlap
	for _, m := range z.File {
		if m.Mode().IsDir() {
			continue
		}
		err := o.loadZipped(name+"/"+m.Name, m, content)
		if o.ctx.Err() != nil || errors.Is(err, errTempFull) {
			return true, err
		}
		if err != nil {
			in.left = append(in.left, "skipped: "+err.Error())
		}
	}
	if len(o.trace.files) == opened {
		return true, fmt.Errorf("%s: no file in the ZIP is a trace", name)
	}
	o.trace.folders = append(o.trace.folders, in)
	return true, nil
}

// loadZipped opens the trace in a file of a ZIP. The name of the file shows its format.
func (o *opener) loadZipped(name string, m *zip.File, content *boundedReader) error {
	plain, err := m.Open()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	content.r = plain
	x := &source{name: name, title: name, opens: []io.Closer{plain}}
	head, r, err := peek(&wholeReader{content, &x.cut})
	if err == nil && len(head) == 0 {
		err = fmt.Errorf("%s: the file is empty", name)
	}
	if err == nil {
		err = o.detect(x, head, r)
	}
	x.name = "" // the name in a ZIP is not a path
	if err != nil {
		return errors.Join(err, x.Close())
	}
	return o.load(x)
}
