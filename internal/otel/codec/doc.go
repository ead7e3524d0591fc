// Package codec reads and writes the messages of OTLP, in JSON and in protobuf, with the types of package
// internal/otel. The schema is one table (schema.go). For each field of a message, it has the number, the name, and
// functions that read and write it. The readers and writers of the two encodings know the kinds of fields, but no
// message.
//
// The source is opentelemetry-proto 1.x (trace.proto, logs.proto, common.proto, resource.proto) and its JSON
// mapping. Fields with their default value are not written. In JSON that is read, an enum may be a name, an integer
// may be written as 1e3 or 5.0, a key may be in snake_case, and a null means that the field is absent. Fields that
// are not in the table are skipped.
//
// A [Reader] reads a record at its offset. Its recursion is only as deep as values may nest. So reading needs little
// memory besides the input, for an input of any size and form.
package codec
