// Package prompt turns a prompt template and a document into the messages that
// are sent to a model. It fetches no prompts and calls no model.
//
// A template is a list of messages; a text prompt is one message of the user.
// In their texts
//
//	{{ identifier }}
//
// stands for a value. An identifier begins with a letter or _, goes on with
// letters, digits and _, and may hold single dots; white space around it is
// optional. Every other brace is text and stays as it is: {"a": 1}, {{ "a": 1 }},
// {{}}, a {{ without its end. In {{{name}}} the inner pair is the identifier's.
// What is inserted is never looked at again, so that a document which holds
// {{object_schemas}} remains what it is.
//
// The steps: ParseText or ParseChat reads a template; Template.Check refuses,
// before any item is run, one with an identifier that nothing fills, or that
// never shows the document; FromDocument and Vars.Add collect the values of an
// item; Compile puts them in.
//
//	t := prompt.ParseText("Find all names in: {{document_text}}")
//	if err := t.Check(nil, nil); err != nil { … }
//	vars, err := prompt.FromDocument(doc)
//	messages, err := prompt.Compile(t, vars)
package prompt
