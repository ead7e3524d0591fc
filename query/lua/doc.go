// Package lua runs the scripts that ENTRACE's viewer and its command entrace-script run, on a
// trace file:
//
//	local all = en_filterset_universe()
//	local slow = en_filter("duration_nano", "GT", 1000000, all) -- more than a millisecond
//	return en_filterset_materialize(slow)
//
// Ids are those of the entries of the file: nothing is folded, a span and its end are two
// entries. The functions en_… are ENTRACE's, with its rules for values and comparisons; their
// documentation is in its repository, below entrace_query/api-docs. These are different here,
// unless [Options].Upstream is set:
//
//   - en_filterset_union is what one or the other of filtersets has. In ENTRACE it is what all have.
//   - en_filterset_invert within another filterset has its own universe.
//   - A range or list of ids that are not in the file is cut.
//   - A span's or event's message is also an attribute "message" where it is not stored as one.
//   - The comparison of a field meta.… that does not exist is an error. In ENTRACE it ends the
//     program.
//
// And in every case en_join waits for all threads, and a filterset that contains itself is an
// error.
//
// The language is Lua 5.1, as gopher-lua has it, with those of LuaJIT's additions that scripts
// use: bit, math.huge, tonumber of "1e3", string.rep with a separator, load of a text. Numbers
// are written as LuaJIT writes them, except by the operator "..": as integers up to 2^63, and
// others with as many digits as they need. There is no io, os, package and debug.
package lua
