// Package archive writes finished traces as Parquet, to folders or objects by service and day.
//
// # Keys
//
// A source is a finished trace file, an ET. Its ID is the SHA-256 of its content in
// hex digits, so a copy under another name is the same source. Its rows are divided by service
// and by the day of their time in UTC, and each part is an object:
//
//	service=NAME/day=2026-11-24/ID-N.parquet
//
// N counts the parts of the source from 1, in the order of their first rows. NAME is the service with all bytes
// escaped, as %2F, except letters, digits, "-", "_", "." and "~". If the escaped name is longer than 200
// bytes, it is cut. The column service has the whole name. If the service or the day is unknown, the value is
// __HIVE_DEFAULT_PARTITION__, which engines read as NULL. Every row of a source is in exactly one object
// and keeps its id from the source. A row without a time gets the day of its parent. If the parent has no day,
// the row gets the day of the first row that has a time. A row without a service belongs to the first service.
//
// # Order of writing
//
// When all objects of a source are stored, its manifest is written:
//
//	_manifest/ID.json
//
// The manifest has the name and size of the source and the keys of the objects. A source with a manifest is
// not archived again. An object gets its key when it is complete. If the archiver is killed, there is no
// manifest, and the next run writes the same keys again. Two archivers that work on one source also write
// the same objects under the same keys. Each source has its own manifest, so no archiver rewrites
// the manifest of another archiver.
package archive
