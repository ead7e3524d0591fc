package measureme

import "errors"

// The errors of a file.
var (
	errMagic    = errors.New("not a measureme file or stream")
	errTag      = errors.New("unknown page tag")
	errPageSize = errors.New("the page size is 0")
	errHole     = errors.New("a page was reserved but never written: all its bytes are 0")
	errTime     = errors.New("the event ends before it starts")
	errString   = errors.New("the string is not in the string table")
	errCycle    = errors.New("string references are nested too deeply")
	errTooLarge = errors.New("the strings of the file expand to more text than is allowed for its size")
	errMetadata = errors.New("the metadata is missing or not a JSON object")
	errTooMany  = errors.New("more events than a trace can hold")
)
