// Command webbuild bundles the viewer's page and writes it to viewer/dist. It needs the two npm packages that
// viewer/web/package-lock.json names.
package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// The maximum sizes of the page's files, compressed.
const (
	maxScript = 60 << 10
	maxStyle  = 8 << 10
)

func main() {
	log.SetFlags(0)
	modules := flag.String("modules", "", "the node_modules with the packages")
	out := flag.String("out", "viewer/dist", "the folder to write")
	units := flag.String("units", "", "bundle the unit tests into that file instead")
	flag.Parse()
	err := build(*modules, *out, *units)
	if err != nil {
		log.Fatal("webbuild: ", err)
	}
}

const web = "viewer/web"

func build(modules, out, units string) error {
	if units != "" { // the unit tests need no browser
		return bundle("units.test.ts", units, math.MaxInt, api.BuildOptions{NodePaths: []string{modules}, Platform: api.PlatformNode})
	}
	page := api.BuildOptions{
		NodePaths: []string{modules}, MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		JSX: api.JSXAutomatic, JSXImportSource: "preact", LegalComments: api.LegalCommentsEndOfFile, Charset: api.CharsetUTF8,
		Engines: []api.Engine{{Name: api.EngineChrome, Version: "123"}, {Name: api.EngineFirefox, Version: "128"}, {Name: api.EngineSafari, Version: "17.5"}},
	}
	b, err := os.ReadFile(web + "/index.html")
	return cmp.Or(
		err, uniqueClasses(web+"/src/app.css"), os.MkdirAll(out, 0o750), bundle("main.tsx", out+"/app.js", maxScript, page), bundle("app.css", out+"/app.css", maxStyle, page),
		os.WriteFile(out+"/index.html", b, 0o600), //nolint:gosec // into the folder that it is given
	)
}

// bundle bundles the source file in and its imports into the file out. It returns an error if the result is larger
// than most bytes, compressed.
func bundle(in, out string, most int, o api.BuildOptions) error {
	o.EntryPoints, o.Bundle, o.Format, o.Target, o.LogLevel = []string{web + "/src/" + in}, true, api.FormatESModule, api.ES2022, api.LogLevelError
	r := api.Build(o)
	if len(r.Errors) > 0 {
		return fmt.Errorf("%s has %d errors", in, len(r.Errors))
	}
	b := r.OutputFiles[0].Contents
	size := compressed(b)
	fmt.Printf("%-8s %6d bytes, %6d compressed, of %d\n", filepath.Base(out), len(b), size, most)
	if size > most {
		return fmt.Errorf("%s is too large", out)
	}
	return os.WriteFile(out, b, 0o600)
}

// uniqueClasses returns an error if a style sheet has two rules for the same single class, because then two parts
// of the page use one class name.
func uniqueClasses(name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	at := make(map[string]int)
	depth := 0 // within other rules and rules such as @media, a class may have another rule
	for _, m := range cssPart.FindAllStringSubmatch(string(cssComment.ReplaceAll(b, nil)), -1) {
		if m[2] == "}" {
			depth--
			continue
		}
		depth++
		selector := strings.TrimSpace(m[1])
		if depth > 1 || !cssClass.MatchString(selector) {
			continue
		}
		at[selector]++
		if at[selector] > 1 {
			return fmt.Errorf("%s has two rules for %s", name, selector)
		}
	}
	return nil
}

var (
	cssComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	cssPart    = regexp.MustCompile(`([^{}]*)([{}])`)
	cssClass   = regexp.MustCompile(`^\.[\w-]+$`)
)

func compressed(b []byte) int {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // err is nil because the level is valid
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Len()
}
