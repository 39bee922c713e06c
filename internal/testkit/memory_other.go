//go:build !linux

package testkit

// FoldersInMemory does nothing: only Linux has a folder in memory that anybody may use.
func FoldersInMemory() {}
