package main

// optional is a flag that may stand alone or with a value: --flag, --flag=VALUE.
type optional struct{ text string }

// Set takes the value; the command library gives "true" where there is none.
func (o *optional) Set(text string) error {
	o.text = text
	return nil
}

// String returns what was given.
func (o *optional) String() string { return o.text }

// IsBoolFlag lets the flag stand alone.
func (o *optional) IsBoolFlag() bool { return true }
