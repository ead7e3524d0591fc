package record

// A LogEvent describes a log record of the application to the flight recorder that may be triggered
// by it.
type LogEvent struct {
	Level   uint8
	Message string
	Ref     Ref // of its span; zero: none
}
