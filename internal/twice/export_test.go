package twice

// Reset forgets that records came.
func Reset() {
	slog.used.Store(false)
	otel.used.Store(false)
}
