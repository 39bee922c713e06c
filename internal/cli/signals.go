package cli

import (
	"os"
	"os/signal"
	"syscall"
)

// EndSignals are the signals that end a program: Ctrl-C, SIGTERM, and that of the
// end of the terminal (SIGHUP), unless it is ignored as nohup has it.
func EndSignals() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}
