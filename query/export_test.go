package query

// Tail is tail, for its test.
var Tail = tail
