// Package timeline lays spans out for formats that have no parents: as nested intervals on lanes,
// with their self times, and as begins and ends in the order of time. It serves the converters.
package timeline
