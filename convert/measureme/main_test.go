package measureme

import (
	"flag"
	"os"
)

var update = flag.Bool("update", false, "write the golden files again")

func writeFile(name string, b []byte) error { return os.WriteFile(name, b, 0o644) }
