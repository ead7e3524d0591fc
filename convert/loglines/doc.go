// Package loglines reads the lines that programs log, as files and as they are printed. It is the one reader of
// lines: "entrace run --console" uses it as well.
//
// A line passes four steps. Three of them are tables, so that another format is a row, whose example is its test:
//
//	lines     bounded records of at most 64 KiB: without colors, and with the frames of a stack
//	wrappers  what carried the line: Docker, Kubernetes, syslog (table wrappers)
//	shapes    what the program printed: JSON, logfmt, the layouts of loggers and of servers (table shapes)
//	fields    what a name means: time, level, ids, the parts of an HTTP request (table fields)
//
// A row of wrappers or shapes has a pattern. In a pattern, a blank stands for blanks and tabs, (…) is optional, \n
// is the end of a line, \ takes away the meaning of the next character, and {name} is the field of this name:
//
//	{time}     a time in any of the forms in table layouts; {time9} with nine digits after the second,
//	           {timeB} with a letter at its beginning
//	{level}    the name of a level; {level1} has one character
//	{caller}   a file and a line, such as main.go:12
//	{name#}    digits; {name%} digits with a point
//	{name~}    any text up to what follows in the pattern
//	{name=}    a text, and behind it perhaps fields as logfmt or a JSON object
//	{name}     text without blanks; at the end of a pattern, the rest of the line
//
// A record without a time has the time of the record before, and one that no shape describes has the whole line as
// its message. Nothing is lost: the entry "log lines" of the output counts the records of each shape.
//
// A record that has a method, a path and a status of HTTP, and a duration, is a span; see [Demote]. Every other record
// names the trace and the span that its line names. In a view it is below that span.
//
// Records are written in the order of the lines, and wait for no parent, so there is no index of them.
package loglines
