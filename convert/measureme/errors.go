package measureme

import "errors"

// What is wrong with a file.
var (
	errMagic    = errors.New("not a measureme file or stream")
	errTag      = errors.New("unknown page tag")
	errPageSize = errors.New("a page of no bytes")
	errHole     = errors.New("zero bytes where a page was promised but never written")
	errTime     = errors.New("the event ends before it starts")
	errString   = errors.New("the string table has no such string")
	errCycle    = errors.New("strings refer to each other too deeply")
	errTooLarge = errors.New("the text is too large for the file it is in")
	errMetadata = errors.New("the metadata is missing or no JSON object")
	errTooMany  = errors.New("more events than a trace has room for")
)

// errRange is the error of a trace that the format cannot hold.
var errRange = errors.New("measureme: the trace spans more than 78 hours, or begins before 1970")
