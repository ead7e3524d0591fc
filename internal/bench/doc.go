// Package bench compares recording with what a Go service would use instead. It
// is a module of its own, so that these stay out of everybody's go.mod.
package bench
