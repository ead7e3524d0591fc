// Package loglines reads log lines, from files and from the output of running programs. "entrace run --console" uses
// it as well.
//
// A line passes four steps. Three steps use tables, so that a new format needs only a new row; the example in the row
// is its test:
//
//	lines     bounded records of at most 64 KiB: without colors, and with the frames of a stack
//	wrappers  what carried the line: Docker, Kubernetes, syslog (table wrappers)
//	shapes    what the program printed: JSON, logfmt, the layouts of loggers and of servers (table shapes)
//	fields    what a name means: time, level, ids, the parts of an HTTP request (table fields)
//
// A row of wrappers or shapes has a pattern. In a pattern, a blank stands for blanks and tabs, (…) is optional, \n is
// the end of a line, \ escapes the next character, and {name} is the field of this name:
//
//	{time}     a time in any of the forms in table layouts; {time9} with nine digits after the second
//	{level}    the name of a level; {level1} has one character
//	{caller}   a file and a line, such as main.go:12
//	{nameB}    with a letter at its beginning
//	{name#}    digits; {name%} digits with a point
//	{name~}    any text up to what follows in the pattern
//	{name=}    a text, and behind it perhaps fields as logfmt or a JSON object
//	{name}     text without blanks; at the end of a pattern, the rest of the line
//
// A record without a time has the time of the previous record. A record that matches no shape has the whole line as
// its message. So no line is lost. The entry "log lines" of the output has the number of records of each shape.
//
// A record with an HTTP method, a path, a status and a duration is a span; see [Demote]. Any other record is a log
// record. It has the trace id and the span id of its line, and in a view it is below that span.
//
// Records are written in the order of the lines. They do not wait for their parents, so no index of records is
// needed.
package loglines
