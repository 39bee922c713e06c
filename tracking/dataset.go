package tracking

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"extraction-experiment/dataset"
	"extraction-experiment/internal/cli"
	"extraction-experiment/langfuse"
	"extraction-experiment/outcome"
	"extraction-experiment/pipeline"
)

// pageSize is how many items of a dataset are asked for at once.
const pageSize = 100

// Dataset is a Langfuse dataset, pinned to one version of its items.
type Dataset struct {
	client  *langfuse.Client
	name    string
	id      string
	version langfuse.DatasetVersion
	// begun is the list of items with its first pages; nil without.
	begun *langfuse.DatasetItems
}

// OpenDataset finds a dataset and pins it to what it holds now. An unknown one
// is an error that langfuse.ErrNotFound matches.
func OpenDataset(ctx context.Context, client *langfuse.Client, name string) (*Dataset, error) {
	d := &Dataset{client: client, name: name}
	var unknown, unpinned error
	var asked sync.WaitGroup
	asked.Go(func() {
		var found langfuse.Dataset
		found, unknown = client.GetDataset(ctx, name)
		d.id = found.ID
	})
	asked.Go(func() {
		if d.version, unpinned = client.CurrentDatasetVersion(ctx, name); unpinned != nil {
			unpinned = fmt.Errorf("finding the current version of dataset %q: %w", name, unpinned)
		}
	})
	asked.Wait()
	return d, cmp.Or(unknown, unpinned)
}

// ReopenDataset returns the dataset at the version that a run began with.
func ReopenDataset(client *langfuse.Client, id, name, version string) (*Dataset, error) {
	t, err := time.Parse(time.RFC3339Nano, version)
	if err != nil {
		return nil, fmt.Errorf("the run's dataset version %q is not a time: %w", version, err)
	}
	return &Dataset{client: client, name: name, id: id, version: langfuse.DatasetVersion{At: t}}, nil
}

// ID returns the dataset's id in Langfuse.
func (d *Dataset) ID() string { return d.id }

// Version returns the pin in the form that the run file and Langfuse keep.
func (d *Dataset) Version() string { return langfuse.FormatTime(d.version.At) }

// Begin reads the first pages of items, which Pages then has at once, where at most so many
// items are wanted: 0 is all. It is not needed; Pages asks again where it failed. Not for
// concurrent use with Pages.
func (d *Dataset) Begin(ctx context.Context, most int) {
	wanted := d.version
	if most > 0 {
		wanted.Items = min(wanted.Items, most)
	}
	d.begun, _ = d.list(ctx, wanted)
}

func (d *Dataset) list(ctx context.Context, v langfuse.DatasetVersion) (*langfuse.DatasetItems, error) {
	return d.client.BeginDatasetItems(ctx, langfuse.DatasetItemsQuery{DatasetName: d.name, Version: v, Limit: pageSize})
}

// Pages yields the items of the pinned version. The order is that of the
// server; reading again gives the same items.
func (d *Dataset) Pages(ctx context.Context) iter.Seq2[[]dataset.Item, error] {
	return func(yield func([]dataset.Item, error) bool) {
		begun := d.begun
		d.begun = nil // its pages may be large
		if begun == nil {
			var err error
			if begun, err = d.list(ctx, langfuse.DatasetVersion{At: d.version.At}); err != nil {
				yield(nil, err)
				return
			}
		}
		for page, err := range begun.Pages(ctx) {
			items := cli.Each(page, func(item langfuse.DatasetItem) dataset.Item {
				return dataset.Item{
					ID: item.ID, Input: item.Input, Expected: item.ExpectedOutput, Metadata: item.Metadata,
					SourceTraceID: item.SourceTraceID, SourceObservationID: item.SourceObservationID,
				}
			})
			if !yield(items, err) {
				return
			}
		}
	}
}

// RunExists reports whether Langfuse has a run of that name over the dataset, in
// any view that the server has. Names are looked up by query or by the computed
// id, so that any name is found. A run without a dataset is known to its run file
// only.
func RunExists(ctx context.Context, site Site, datasetID, name string) (bool, error) {
	if datasetID == "" {
		return false, nil
	}
	_, _, err := site.find(ctx, langfuse.RunRef{DatasetID: datasetID, Name: name})
	if errors.Is(err, langfuse.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// FindPrompt fetches one version of a prompt, by label or version, and pins it:
// whatever the label points to later, the run names this version. An unknown
// one is an error that langfuse.ErrNotFound matches.
func FindPrompt(ctx context.Context, client *langfuse.Client, ref langfuse.PromptRef) (pipeline.Template, outcome.Prompt, error) {
	found, err := client.GetPrompt(ctx, ref)
	if err != nil {
		return pipeline.Template{}, outcome.Prompt{}, err
	}
	return pinned(found, ref.Label)
}

// PushPrompt makes the template the newest version of the named prompt, unless
// the newest says the same already, and pins that version. No label is moved. A prompt of
// messages stays one, also if it is a single one; one that is a text in Langfuse cannot become
// several messages, which is an error of exit code 64.
func PushPrompt(ctx context.Context, client *langfuse.Client, name string, t pipeline.Template) (pipeline.Template, outcome.Prompt, error) {
	newest, err := client.GetPrompt(ctx, langfuse.PromptRef{Name: name, Label: "latest"})
	if err == nil {
		same, pin, err := pinned(newest, "")
		if err == nil && pin.SHA256 == t.SHA256() {
			return same, pin, nil
		}
	} else if !errors.Is(err, langfuse.ErrNotFound) {
		return pipeline.Template{}, outcome.Prompt{}, err
	}
	chat := err == nil && newest.Type == langfuse.PromptChat
	create := newPrompt(name, t, chat)
	if err == nil && create.Type == langfuse.PromptChat && !chat {
		return pipeline.Template{}, outcome.Prompt{}, cli.Usage("the prompt %q is a text in Langfuse and cannot become messages: "+
			"choose another name with --prompt", name)
	}
	stored, err := client.CreatePrompt(ctx, create)
	if err != nil {
		return pipeline.Template{}, outcome.Prompt{}, err
	}
	return pinned(stored, "")
}

// newPrompt writes a template as Langfuse keeps it: a single message of the user as a text,
// unless it is to be a chat.
func newPrompt(name string, t pipeline.Template, chat bool) langfuse.Prompt {
	if !chat && len(t.Messages) == 1 && t.Messages[0].Role == pipeline.RoleUser && t.Messages[0].Placeholder == "" {
		return langfuse.Prompt{Name: name, Type: langfuse.PromptText, Prompt: encode(t.Messages[0].Content)}
	}
	var messages []langfuse.PromptMessage
	for _, m := range t.Messages {
		message := langfuse.PromptMessage{Role: m.Role, Content: m.Content}
		if m.Placeholder != "" {
			message = langfuse.PromptMessage{Type: "placeholder", Name: m.Placeholder}
		}
		messages = append(messages, message)
	}
	return langfuse.Prompt{Name: name, Type: langfuse.PromptChat, Prompt: encode(messages)}
}

// CreateDefaultPrompt puts the built-in prompt, labelled production, into a
// project that has no prompt of its name.
func CreateDefaultPrompt(ctx context.Context, client *langfuse.Client) error {
	_, err := client.GetPrompt(ctx, langfuse.PromptRef{Name: pipeline.DefaultPromptName, Label: "latest"})
	if !errors.Is(err, langfuse.ErrNotFound) {
		return err
	}
	create := newPrompt(pipeline.DefaultPromptName, pipeline.DefaultPrompt(), true)
	create.Labels = []string{"production"}
	_, err = client.CreatePrompt(ctx, create)
	return err
}

// pinned turns what Langfuse keeps into a template and its pin.
func pinned(p langfuse.Prompt, label string) (pipeline.Template, outcome.Prompt, error) {
	var t pipeline.Template
	var err error
	if p.Type != langfuse.PromptChat {
		var text string
		text, err = p.Text()
		t = pipeline.ParseText(text)
	} else if t, err = pipeline.ParseChat(p.Prompt); err != nil {
		err = fmt.Errorf("prompt %s@%d: %w", p.Name, p.Version, err)
	}
	if err != nil {
		return t, outcome.Prompt{}, err
	}
	t.Name, t.Version, t.Label, t.Config = p.Name, p.Version, label, p.Config
	return t, outcome.Prompt{Name: p.Name, Version: p.Version, Label: label, SHA256: t.SHA256()}, nil
}
