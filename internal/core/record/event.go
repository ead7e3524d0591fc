package record

// A LogEvent describes a log record of the application to a flight recorder. The record may trigger
// the flight recorder.
type LogEvent struct {
	Level   uint8
	Message string
	Ref     Ref // the span of the record; zero: no span
}
