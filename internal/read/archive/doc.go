// Package archive writes finished traces as Parquet, to folders or objects by service and day.
//
// # Keys
//
// A source is a finished trace file, an ET. Its ID is the SHA-256 of its content in hex digits, so that a copy
// with another name is the same source. Its rows are divided by service, and by the day of their time in UTC. Each
// part becomes an object:
//
//	service=NAME/day=2026-11-24/ID-N.parquet
//
// N is the number of the part in the source, from 1 on, in the order of the parts' first rows. NAME is the service,
// with all bytes escaped (as %2F) except letters, digits, "-", "_", "." and "~". An escaped name of more than 200
// bytes is cut, but the column service has the whole name. If the service or the day is unknown, the value in the key
// is __HIVE_DEFAULT_PARTITION__, which query engines read as NULL. Every row of a source is in exactly one object and
// keeps its id from the source. A row without a time gets the day of its parent. If the parent has no day, the row
// gets the day of the first row with a time. A row without a service belongs to the first service.
//
// # Order of writing
//
// When all objects of a source are stored, its manifest is written:
//
//	_manifest/ID.json
//
// The manifest has the name and size of the source and the keys of the objects. A source with a manifest is not
// archived again. An object gets its key when it is complete. If the archiver is killed before it writes the
// manifest, the next run writes all objects again, under the same keys. If two archivers archive one source at the
// same time, they also write the same objects under the same keys. Each source has its own manifest, so that
// archivers of different sources never write the same file.
package archive
