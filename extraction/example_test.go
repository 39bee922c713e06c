package extraction_test

import (
	"fmt"

	"extraction-experiment/extraction"
)

func ExampleIndex_Locate() {
	span, found := extraction.NewIndex("She joined Acme\nCorp.").Locate("acme corp", 0)
	fmt.Printf("%q %d %d %t\n", span.Quote, span.Start, span.End, found)
	// Output:
	// "Acme\nCorp" 11 20 true
}

func ExampleOffsets_Convert() {
	o := extraction.NewOffsets("😀 Ann")
	units, _ := o.Convert(2, extraction.CodePoints, extraction.UTF16)
	bytes, _ := o.Convert(2, extraction.CodePoints, extraction.Bytes)
	fmt.Println(units, bytes)
	// Output:
	// 3 5
}
