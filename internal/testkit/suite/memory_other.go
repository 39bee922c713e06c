//go:build !linux

package suite

// InMemory does nothing: only Linux has a folder in memory that anybody may use.
func InMemory() {}
