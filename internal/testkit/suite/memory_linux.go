package suite

import (
	"os"
	"syscall"
)

// InMemory has temporary folders made in memory from here on, in this process and those
// that it starts: for tests that write many small files and do not ask whether a disk has
// them. Folders stay on the disk with EXPERIMENT_TEST_FULL, where TMPDIR is set, and
// where memory has no room.
func InMemory() {
	const folder, room = "/dev/shm", 1 << 30
	var fs syscall.Statfs_t
	switch {
	case Full() || os.Getenv("TMPDIR") != "":
		return
	case syscall.Statfs(folder, &fs) != nil || fs.Bavail*uint64(fs.Bsize) < room:
		return
	}
	probe, err := os.MkdirTemp(folder, "test")
	if err != nil {
		return
	}
	if os.Remove(probe) == nil {
		_ = os.Setenv("TMPDIR", folder) // without it they are on the disk
	}
}
