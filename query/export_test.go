package query

// Tail is tail, for its test.
var Tail = tail

// MaxGroups is maxGroups, for its test.
var MaxGroups = &maxGroups
