//go:build !linux

// Package tempdir says where tests have their temporary folders.
package tempdir

// InMemory does nothing: only Linux has a folder in memory that anybody may use.
func InMemory() {}
