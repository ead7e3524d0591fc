// Command webbuild bundles the viewer's page: it needs the two packages of npm that
// viewer/web/package-lock.json names, and writes viewer/dist.
package main

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// What the page may weigh, compressed.
const (
	maxScript = 60 << 10
	maxStyle  = 8 << 10
)

func main() {
	log.SetFlags(0)
	web := flag.String("web", "viewer/web", "the folder of the sources")
	modules := flag.String("modules", "", "the node_modules with the packages")
	out := flag.String("out", "viewer/dist", "the folder to write")
	units := flag.String("units", "", "bundle the unit tests into that file instead")
	flag.Parse()
	if *units != "" {
		if err := bundleUnits(*web, *modules, *units); err != nil {
			log.Fatal("webbuild: ", err)
		}
		return
	}
	if err := build(*web, *modules, *out); err != nil {
		log.Fatal("webbuild: ", err)
	}
}

func build(web, modules, out string) error {
	web, err := filepath.Abs(web)
	if err != nil {
		return err
	}
	if err := uniqueClasses(filepath.Join(web, "src/app.css")); err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o750); err != nil {
		return err
	}
	for _, f := range []struct {
		in, out string
		most    int
	}{{"src/main.tsx", "app.js", maxScript}, {"src/app.css", "app.css", maxStyle}} {
		r := api.Build(api.BuildOptions{
			EntryPoints: []string{filepath.Join(web, f.in)}, AbsWorkingDir: web, NodePaths: []string{modules},
			Bundle: true, MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true, Format: api.FormatESModule,
			Target: api.ES2022, JSX: api.JSXAutomatic, JSXImportSource: "preact", LegalComments: api.LegalCommentsEndOfFile, Charset: api.CharsetUTF8,
			Engines: []api.Engine{{Name: api.EngineChrome, Version: "123"}, {Name: api.EngineFirefox, Version: "128"}, {Name: api.EngineSafari, Version: "17.5"}},
		})
		if len(r.Errors) > 0 {
			for _, s := range api.FormatMessages(r.Errors, api.FormatMessagesOptions{}) {
				fmt.Fprint(os.Stderr, s)
			}
			return fmt.Errorf("%s has %d errors", f.in, len(r.Errors))
		}
		b := r.OutputFiles[0].Contents
		size, err := compressed(b)
		if err != nil {
			return err
		}
		fmt.Printf("%-8s %6d bytes, %6d compressed, of %d\n", f.out, len(b), size, f.most)
		if size > f.most {
			return fmt.Errorf("%s is too large", f.out)
		}
		if err := os.WriteFile(filepath.Join(out, f.out), b, 0o600); err != nil {
			return err
		}
	}
	b, err := os.ReadFile(filepath.Join(web, "index.html"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "index.html"), b, 0o600) //nolint:gosec // into the folder that it is given
}

// uniqueClasses fails if a style sheet has two rules for a class alone: two parts of the page use one name.
func uniqueClasses(name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	at := make(map[string]int)
	conditional := 0 // the depth within @media and the like
	for _, m := range cssPart.FindAllStringSubmatch(string(cssComment.ReplaceAll(b, nil)), -1) {
		switch selector := strings.TrimSpace(m[1]); {
		case m[2] == "{" && (conditional > 0 || strings.HasPrefix(selector, "@")):
			conditional++
		case m[2] == "{":
			if at[selector]++; at[selector] > 1 && cssClass.MatchString(selector) {
				return fmt.Errorf("%s has two rules for %s", name, selector)
			}
		case conditional > 0:
			conditional--
		}
	}
	return nil
}

var (
	cssComment = regexp.MustCompile(`(?s)/\*.*?\*/`)
	cssPart    = regexp.MustCompile(`([^{}]*)([{}])`)
	cssClass   = regexp.MustCompile(`^\.[\w-]+$`)
)

// bundleUnits bundles the tests that need no browser, for node.
func bundleUnits(web, modules, out string) error {
	web, err := filepath.Abs(web)
	if err != nil {
		return err
	}
	r := api.Build(api.BuildOptions{
		EntryPoints: []string{filepath.Join(web, "src/units.test.ts")}, AbsWorkingDir: web, NodePaths: []string{modules}, Outfile: out, Write: true,
		Bundle: true, Format: api.FormatESModule, Platform: api.PlatformNode, Target: api.ES2022,
	})
	if len(r.Errors) > 0 {
		return fmt.Errorf("%s", r.Errors[0].Text)
	}
	return nil
}

func compressed(b []byte) (int, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return 0, err
	}
	_, err = w.Write(b)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return out.Len(), err
}
