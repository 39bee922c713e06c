//go:build !failpoints

package runstore

// failpoint does nothing: the program was built without failpoints.
func failpoint(string) {}
