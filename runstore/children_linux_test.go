package runstore

// children are what child processes of the tests do, by name.
func children() map[string]func(path string) error {
	return map[string]func(path string) error{"commit": commitForever, "limit": commitUntilFull}
}
