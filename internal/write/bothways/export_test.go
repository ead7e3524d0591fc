package bothways

// Reset forgets that records came.
func Reset() {
	for _, w := range []*way{&slog, &otel} {
		w.used.Store(false)
		for i := range w.seen {
			w.seen[i].Store(0)
		}
	}
}
