package proc

import "syscall"

// dieWithUs has the system kill a process when this one ends, however it ends.
func dieWithUs(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
