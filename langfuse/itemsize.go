package langfuse

import "fmt"

// ItemSizeError says that a dataset item is larger than servers take.
type ItemSizeError struct {
	Dataset, ID string
	Bytes       int // of the request
}

// Error names the item, its size and the limit.
func (e *ItemSizeError) Error() string {
	return fmt.Sprintf("langfuse: item %q of dataset %q is %.1f MB, and Langfuse takes %.1f MB at most: shorten its document or leave it out",
		cutText(e.ID, 80), cutText(e.Dataset, 80), float64(e.Bytes)/(1<<20), float64(MaxItemBytes)/(1<<20))
}

// Is reports whether the target is ErrTooLarge.
func (*ItemSizeError) Is(target error) bool { return target == ErrTooLarge }

// ExitCode returns 64: the item is at fault.
func (*ItemSizeError) ExitCode() int { return 64 }
