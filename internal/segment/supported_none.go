//go:build !unix || solaris || illumos || aix

package segment

// Supported says whether a file of segments can be had here: it takes maps that
// outlive the process, and locks that do not.
const Supported = false
