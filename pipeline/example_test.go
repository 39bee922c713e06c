package pipeline_test

import (
	"fmt"

	"extraction-experiment/extraction"
	"extraction-experiment/pipeline"
)

func ExampleCompile() {
	t := pipeline.ParseText(`Answer like {"names": []}. Names in: {{ document_text }}`)
	if err := t.Check(nil, nil); err != nil {
		fmt.Println(err)
		return
	}
	vars, err := pipeline.DocumentVars(extraction.Document{Text: "Ann met {{allowed_types}}."})
	if err != nil {
		fmt.Println(err)
		return
	}
	messages, err := pipeline.Compile(t, vars)
	fmt.Println(messages[0].Content, err)
	// Output: Answer like {"names": []}. Names in: Ann met {{allowed_types}}. <nil>
}
