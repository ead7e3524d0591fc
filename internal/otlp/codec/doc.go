// Package codec reads and writes the messages of OTLP, in JSON and in protobuf, with the
// types of package internal/otel. The schema is one table (schema.go): for each message its
// fields, with their numbers, their names and where they are in those types. A reader and a
// writer of each encoding know the kinds of fields, and no message.
//
// The source is opentelemetry-proto 1.x (trace.proto, logs.proto, common.proto,
// resource.proto) and its JSON mapping. Fields that have their default are left out. In JSON
// enums may be names and integers numbers when they are read, keys may be in snake_case, and
// what is null is absent. Fields that are not in the table are passed over.
//
// A [Reader] reads records by their offset, and recurses no deeper than values may nest: an
// input of any size and shape needs little memory besides its own.
package codec
