//go:build !unix

package proc

import "errors"

// startDaemon returns an error, because only Unix has daemons.
func startDaemon() (int, error) { return 0, errors.New("there are no daemons here") }
