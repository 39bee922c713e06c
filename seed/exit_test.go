package seed

import "errors"

func asExit(err error, into *interface{ ExitCode() int }) bool { return errors.As(err, into) }
