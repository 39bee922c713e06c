// Package filelock locks files between processes. A lock dies with its process, or
// when the file is closed.
package filelock
