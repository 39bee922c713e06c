package runstore

// children are the functions that child processes of the tests call, by name.
func children() map[string]func(path string) error {
	return map[string]func(path string) error{"commit": commitForever, "limit": commitUntilFull}
}
