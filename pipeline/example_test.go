package pipeline_test

import (
	"context"
	"fmt"

	"extraction-experiment/extraction"
	"extraction-experiment/pipeline"
)

// capital is a model of one's own that always gives the same answer.
type capital struct{}

func (capital) Generate(context.Context, pipeline.Request) (pipeline.Response, error) {
	answer := `{"entities": [{"name": "Paris", "type": "City"}, {"name": "France", "type": "Country"}]}`
	return pipeline.Response{Text: answer, Finish: pipeline.FinishStop}, nil
}

// Limited sends a request again that failed with a *ModelError with Retry, and finds out how many
// requests the model takes at once.
func ExamplePipeline() {
	model := pipeline.Limited(pipeline.LimitedConfig{Model: capital{}})
	p, err := pipeline.New(pipeline.Config{Model: model, Name: "capital-1", Prompt: pipeline.DefaultPrompt()})
	if err != nil {
		fmt.Println(err)
		return
	}
	found, calls, err := p.Extract(context.Background(), extraction.Document{Text: "Paris is the capital of France."})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range found.Entities {
		fmt.Println(e.Name, e.Type)
	}
	fmt.Println("asked", calls[0].Model)
	// Output:
	// Paris City
	// France Country
	// asked capital-1
}

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
