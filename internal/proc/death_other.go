//go:build unix && !linux

package proc

import "syscall"

// dieWithUs does nothing: only Linux can have a process end with its parent.
func dieWithUs(*syscall.SysProcAttr) {}
