// Package convert turns trace files into other trace files: ET, IET and IETPrefix
// into each other, in disk version 1 or 2.
//
// A conversion within one version copies every entry byte for byte: there and
// back again gives the identical file. From version 1 to 2 the attributes of an
// entry are sorted by name, those of one name in the order they had; from 2 to 1
// they stay sorted.
//
// Nothing is lost between these formats but what was no whole entry.
package convert
