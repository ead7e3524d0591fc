// Package codec reads and writes the messages of OTLP, in JSON and in protobuf, with the types of package
// internal/otel. The schema is one table (schema.go) with the fields of each message: their numbers, their
// names and their places in these types. The reader and the writer of each encoding know the kinds of fields,
// but no particular message.
//
// The source is opentelemetry-proto 1.x (trace.proto, logs.proto, common.proto, resource.proto) and its
// JSON mapping. Fields with their default value are not written. When JSON is read, enums may be names,
// integers may be written as other numbers, keys may be in snake_case, and null means absent. Fields that
// are not in the table are skipped.
//
// A [Reader] reads records by their offset. Its recursion is only as deep as values may nest. So reading needs
// little memory besides the input, regardless of the size and shape of the input.
package codec
