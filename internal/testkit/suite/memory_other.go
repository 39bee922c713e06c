//go:build !linux

package suite

// InMemory does nothing: only Linux has a folder in memory for all users.
func InMemory() {}
