// Package lua runs the scripts that ENTRACE's viewer and its command entrace-script run, on a
// trace file:
//
//	local all = en_filterset_universe()
//	local slow = en_filter("duration_nano", "GT", 1000000, all) -- more than a millisecond
//	return en_filterset_materialize(slow)
//
// Ids are the ids of entries of the file. A span and its end are two entries. The functions en_…
// are those of ENTRACE, with the same rules for values and comparisons. Their documentation is in
// the repository of ENTRACE, in entrace_query/api-docs. They differ from ENTRACE in these points:
//
//   - en_filterset_union has the ids of all filtersets together. In ENTRACE it only has the ids
//     that are in every filterset.
//   - en_filterset_invert inside of another filterset uses its own universe.
//   - Ids that are not in the file are removed from a range or list.
//   - The message of a span or an event is also available as an attribute "message".
//   - The comparison of a field meta.… that does not exist is an error. In ENTRACE it ends the
//     program.
//   - en_join waits for all threads.
//   - A filterset that contains itself is an error.
//
// The language is Lua 5.1, as implemented by gopher-lua, and not LuaJIT: there is no library bit,
// and numbers are formatted as Go formats them. load takes a text. The width and the precision in
// string.format have at most two digits. The libraries io, os, package and debug are not available.
package lua
