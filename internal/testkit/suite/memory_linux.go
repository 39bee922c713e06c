package suite

import (
	"os"
	"syscall"
)

// InMemory creates temporary folders in memory, in this process and the processes that it
// starts. It is for tests that write many small files and do not need a disk. Folders stay on
// the disk if EXPERIMENT_TEST_FULL or TMPDIR is set, or if less than 1 GiB of memory is free.
func InMemory() {
	const folder, minFree = "/dev/shm", 1 << 30
	var fs syscall.Statfs_t
	if Full() || os.Getenv("TMPDIR") != "" || syscall.Statfs(folder, &fs) != nil || fs.Bavail*uint64(fs.Bsize) < minFree {
		return
	}
	if probe, err := os.MkdirTemp(folder, "test"); err == nil && os.Remove(probe) == nil {
		_ = os.Setenv("TMPDIR", folder) // if it fails, folders stay on the disk
	}
}
