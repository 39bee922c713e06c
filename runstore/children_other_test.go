//go:build !linux

package runstore

func children() map[string]func(path string) error { return nil }
