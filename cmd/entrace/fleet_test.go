package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// A script is a running script of examples/fleet.
type script struct {
	t   *testing.T
	cmd *exec.Cmd
	out transcript
}

// fleetScript starts a script of examples/fleet in dir.
func fleetScript(t *testing.T, dir, name string, args ...string) *script {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "examples", "fleet", name))
	must(t, err)
	s := &script{t: t, cmd: exec.CommandContext(t.Context(), path, args...)}
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, &s.out, &s.out
	s.cmd.Env = append(os.Environ(), "OTEL_SERVICE_NAME=shop", "EVERY=0.1")
	return s
}

// await waits until the script has printed text.
func (s *script) await(text string) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(s.out.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s does not come:\n%s", text, &s.out)
		}
	}
}

// stop sends the script SIGTERM, and waits until it has ended.
func (s *script) stop() {
	s.t.Helper()
	must(s.t, s.cmd.Process.Signal(syscall.SIGTERM))
	err := s.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == exitInterrupted {
		err = nil
	}
	if err != nil {
		s.t.Fatalf("%v\n%s", err, &s.out)
	}
}

func (s *script) run() {
	s.t.Helper()
	if err := s.cmd.Run(); err != nil {
		s.t.Fatalf("%v\n%s", err, &s.out)
	}
}

// TestFleetScripts follows docs/fleet.md. It replays the recording of a program to a receiver. The archive
// then has the records of the program and of the receiver, and also those of a killed program.
func TestFleetScripts(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("they are for a shell")
	}
	dir := t.TempDir()
	for range 2 {
		fleetScript(t, dir, "record.sh", "traces", "shop").run()
	}
	recorded, err := filepath.Glob(filepath.Join(dir, "traces", "shop-*.et"))
	must(t, err)
	expect.Len(t, recorded, 2, "record.sh left")

	receive := fleetScript(t, dir, "receive.sh", "received", "--listen", "", "--otlp-http", "127.0.0.1:0", "--otlp-grpc", "")
	must(t, receive.cmd.Start())
	receive.await("listening for OTLP at http://")
	replay := fleetScript(t, dir, "replay.sh", "traces", `{ name = "checkout" }`)
	replay.cmd.Env = append(replay.cmd.Env, "OTEL_EXPORTER_OTLP_ENDPOINT="+regexp.MustCompile(`http://\S+`).FindString(receive.out.String()))
	replay.run()
	receive.stop()
	expect.Has(t, replay.out.String(), "sent 2 spans", "replay.sh says")
	expect.Has(t, fine(t, nil, "stats", "--csv", filepath.Join(dir, "received")), "shop,checkout,2,", "received")

	must(t, os.CopyFS(filepath.Join(dir, "traces"), os.DirFS(filepath.Join(dir, "received"))))
	archive := fleetScript(t, dir, "archive.sh", "traces", "archive")
	must(t, archive.cmd.Start())
	archive.await("archived 4 traces") // of two processes, each as it recorded and as the receiver did
	archive.await("; 4 archived before")
	rec := traceOf("sample", filepath.Join(dir, "live.iet"))
	must(t, os.WriteFile(filepath.Join(dir, "traces", "killed.iet"), read(t, filepath.Join(dir, "live.iet")), 0o600))
	must(t, rec.Close(t.Context()))
	archive.stop()
	if !strings.Contains(archive.out.String(), "archived 1 trace as") {
		t.Errorf("what was killed is not archived:\n%s", &archive.out)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "archive", "service=shop", "day=*", "*.parquet"))
	must(t, err)
	if len(tables) < 4 {
		t.Errorf("the archive has %q", tables)
	}
}

// fleetYAML returns the documents of a file of examples/fleet.
func fleetYAML(t *testing.T, name string) (all []map[string]any) {
	t.Helper()
	for d := yaml.NewDecoder(bytes.NewReader(read(t, filepath.Join("..", "..", "examples", "fleet", name)))); ; {
		var doc map[string]any
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		all = append(all, doc)
	}
}

// at returns the value at the path keys in a document.
func at(doc any, keys ...string) any {
	for _, k := range keys {
		m, _ := doc.(map[string]any)
		doc = m[k]
	}
	return doc
}

func list(doc any, keys ...string) []any {
	l, _ := at(doc, keys...).([]any)
	return l
}

// TestFleetKubernetes checks the Kubernetes files without a cluster: mounted volumes are declared, and
// variables, scripts and flags exist.
func TestFleetKubernetes(t *testing.T) {
	variables := string(read(t, filepath.Join("..", "..", "docs", "environment.md")))
	containers := 0
	for _, doc := range fleetYAML(t, "kubernetes.yaml") {
		spec := at(doc, "spec", "template", "spec")
		var volumes []any
		for _, v := range append(list(spec, "volumes"), list(doc, "spec", "volumeClaimTemplates")...) {
			volumes = append(volumes, at(v, "name"), at(v, "metadata", "name"))
		}
		for _, c := range append(list(spec, "initContainers"), list(spec, "containers")...) {
			containers++
			for _, m := range list(c, "volumeMounts") {
				if !slices.Contains(volumes, at(m, "name")) {
					t.Errorf("%v mounts %v", at(c, "name"), m)
				}
			}
			for _, e := range list(c, "env") {
				name := at(e, "name").(string)
				if strings.HasPrefix(name, "OTEL_") && !strings.Contains(variables, "`"+name+"`") {
					t.Errorf("there is no variable %s", name)
				}
			}
			command := list(c, "command")
			if len(command) == 0 {
				continue
			}
			text := string(read(t, filepath.Join("..", "..", "examples", "fleet", command[0].(string))))
			if flags := slices.DeleteFunc(slices.Clone(command[1:]), func(s any) bool { return !strings.HasPrefix(s.(string), "-") }); len(flags) > 0 {
				verb := regexp.MustCompile(`exec entrace (\w+)`).FindStringSubmatch(text)[1]
				for _, f := range flags {
					parses(t, "kubernetes.yaml", []string{verb, f.(string) + "="})
				}
			}
		}
	}
	expect.Equal(t, containers, 4, "containers")
}

// TestFleetCollector checks that the components of the pipelines are configured. The tests in the folder
// collector run such a configuration.
func TestFleetCollector(t *testing.T) {
	pipelines := 0
	for _, doc := range fleetYAML(t, "collector.yaml") {
		all, _ := at(doc, "service", "pipelines").(map[string]any)
		for name, p := range all {
			pipelines++
			for _, kind := range []string{"receivers", "exporters"} {
				for _, c := range list(p, kind) {
					if at(doc, kind, c.(string)) == nil {
						t.Errorf("%s: there is no %v among the %s", name, c, kind)
					}
				}
			}
		}
	}
	expect.Equal(t, pipelines, 2, "pipelines")
}
