package provider_test

import (
	"fmt"

	"github.com/entrace-go/entrace/control/provider"
)

func ExampleAll() {
	for _, m := range provider.All() {
		fmt.Println(m.Provides)
	}
	// Output:
	// runtime.metrics,gc,sched
	// process
	// goroutines
	// cpu.profile
	// exec.trace
}
