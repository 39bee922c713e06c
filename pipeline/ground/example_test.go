package ground_test

import (
	"fmt"

	"extraction-experiment/pipeline/ground"
)

func ExampleIndex_Locate() {
	span, match := ground.NewIndex("She joined Acme\nCorp.").Locate("acme corp", 0)
	fmt.Printf("%q %d %d %s\n", span.Quote, span.Start, span.End, match)
	// Output:
	// "Acme\nCorp" 11 20 tolerant
}

func ExampleOffsets_Convert() {
	o := ground.NewOffsets("😀 Ann")
	units, _ := o.Convert(2, ground.CodePoints, ground.UTF16)
	bytes, _ := o.Convert(2, ground.CodePoints, ground.Bytes)
	fmt.Println(units, bytes)
	// Output:
	// 3 5
}
