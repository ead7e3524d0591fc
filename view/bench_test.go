package view_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

func status(key string) string {
	b, _ := os.ReadFile("/proc/self/status")
	for l := range strings.SplitSeq(string(b), "\n") {
		if after, ok := strings.CutPrefix(l, key+":"); ok {
			return strings.TrimSpace(after)
		}
	}
	return ""
}

func TestBuildBig(t *testing.T) {
	t0 := time.Now()
	name := os.Getenv("F")
	if name == "" {
		t.Skip()
	}
	f, err := format.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t1 := time.Now()
	v, err := view.New(t.Context(), []*format.File{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t2 := time.Now()
	fmt.Println("open", t1.Sub(t0), "view", t2.Sub(t1), "rows", v.Len(), "RssAnon", status("RssAnon"), "damage", v.Damage(0))
	v.Tree()
	fmt.Println("tree", time.Since(t2), "RssAnon", status("RssAnon"))
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	fmt.Println("total", ms.TotalAlloc>>20, "inuse", ms.HeapInuse>>20, "sys", ms.HeapSys>>20)
	runtime.KeepAlive(v)
}
