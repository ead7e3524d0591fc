package record

// A LogEvent describes a log record of the application to a flight recorder, which may then start a trace.
type LogEvent struct {
	Level   uint8
	Message string
	Ref     Ref // the span of the record; zero: no span
}
