package mapping

import "log/slog"

// Level returns the format.Level, as a number, of a log record with the level l: 0 if l is below Debug, up to 4 if
// l is Error or above.
func Level(l slog.Level) uint8 {
	return uint8(min(max(int(l>>2)+2, 0), 4))
}

// SlogLevel returns the lowest slog level whose Level is n. For 0 it returns Debug-4.
func SlogLevel(n uint8) slog.Level { return slog.Level(4*int(n) - 8) }
