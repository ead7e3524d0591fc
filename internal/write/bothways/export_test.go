package bothways

// Reset makes the package forget all records.
func Reset() {
	for _, w := range []*way{&slog, &otel} {
		w.used.Store(false)
		for i := range w.seen {
			w.seen[i].Store(0)
		}
	}
}
