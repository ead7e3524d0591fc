// Package measureme reads the self-profiles of rustc (.mm_profdata), in versions 8 and 9. A profile has intervals on
// threads, instants and integers, with labels and text arguments.
//
// The format is defined by the crates measureme and decodeme: releases 10.1.3 for version 8, and 12.0.3 for version
// 9 (https://github.com/rust-lang/measureme). Issue 128 of that project proposed the pages.
//
// # The layout
//
// A file is a header and pages. Each page belongs to one of three streams. The content of a stream, from all of its
// pages, also begins with a header. Addresses are relative to the start of this content, offsets to the start of
// the file. Numbers are little endian.
//
//	file   = header("MMPD"), page*
//	header = magic [4]byte, version u32
//	page   = tag u8, size u32, payload [size]byte
//
//	tag 0  header("MMES"), event*
//	tag 1  header("MMSD"), string*
//	tag 2  header("MMSI"), (id, address)*   u64 each; u32 in version 8
//
//	event {
//		kind    id            u64; u32 in version 8
//		label   id            likewise; arguments follow, 0x1E before each
//		thread  u32
//		first   u48           the lower 32 bits; the upper bits of both come last
//		second  u48
//	}
//	interval  first: start, second: end, in nanoseconds from the start of the profile
//	instant   first: time,  second: 0xFFFFFFFFFFFF
//	integer   first: value, second: 0xFFFFFFFFFFFE
//
//	string = (UTF-8 bytes | 0xFE id)*, 0xFF
//	id     = 0..100,000,000 virtual, 100,000,001 the metadata: see the index;
//	         100,000,002 none; from 100,000,003 on: the address, plus that
//
// The metadata is a JSON object: start_time in nanoseconds since 1970,
// process_id, cmd, counter. Events are in the order in which they end.
//
// # How events become entries
//
//	resource                  the file: process.pid, process.command_line, service.name (what follows
//	                          --crate-name), measureme.version, measureme.counter, measureme.metadata (the text)
//	span                      an interval, below the innermost interval of its thread that contains it
//	span event                an instant within an interval of its thread
//	log record                an instant outside all intervals, and an integer; the message is the label
//
//	name, or message          label
//	measureme.kind    String  kind
//	measureme.arg.0   String  the first argument, and so on; from 1,000 on all are in measureme.arg.999
//	measureme.value   I64     of an integer, which has no time
//	thread.id         I64     thread
//	span_id                   the number of the record + 1
//	trace_id                  the first 16 bytes of SHA-256 over the metadata, or else the first page
//	otel.made_ids     Bool    true on spans: both ids are made
//
// If two intervals are equal, the later record is the parent, as in the tools of measureme. So the self times (the
// duration of a span without its direct children) are the same as in these tools.
//
// # What is lost
//
// Lost are the order of records that end at the same time, how strings are shared, which text a virtual id refers
// to, and bytes that are not UTF-8. None of these has a meaning. A string without a text becomes "<unknown>", as in
// the tools. A damaged string, or one of more than 4 MiB, becomes "<invalid>". The values of a counter other than
// wall-time are read as nanoseconds, as in the tools.
//
// # Crashes
//
// If the writer of a file died, its whole pages are decoded, and the whole records of the last page. The metadata
// is found even without an index.
package measureme
