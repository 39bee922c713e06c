//go:build !failpoints

package runstore

// failpoint does nothing in a program without the tag failpoints.
func failpoint(string) {}
