package mapping

import "log/slog"

// Level returns the number of the format.Level of a log record of level l: 0 for one below Debug, up to
// 4 for Error and above.
func Level(l slog.Level) uint8 {
	return uint8(min(max(int(l>>2)+2, 0), 4))
}

// SlogLevel returns the lowest level whose Level is n, but for 0: that of one four below Debug.
func SlogLevel(n uint8) slog.Level { return slog.Level(4*int(n) - 8) }
