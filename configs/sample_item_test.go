package configs

// item is an item of the built-in dataset. Absent lists are nil, empty lists are not.
type item struct {
	ID    string `json:"id"`
	Input struct {
		Text          string                    `json:"document_text"`
		Objects       map[string]objectSchema   `json:"object_schemas"`
		Relationships map[string]relationSchema `json:"relationship_schemas"`
		AllowedTypes  []string                  `json:"allowed_types"`
		DocumentType  string                    `json:"document_type"`
	} `json:"input"`
	Expected struct {
		Entities      []entity       `json:"entities"`
		Relationships []relationship `json:"relationships"`
	} `json:"expectedOutput"`
	Metadata struct {
		Category   string   `json:"document_category"`
		Difficulty string   `json:"difficulty"`
		Language   string   `json:"language"`
		Notes      string   `json:"notes"`
		Tags       []string `json:"tags"`
	} `json:"metadata"`
}

type objectSchema struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

type relationSchema struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Sources     []string `json:"source_types"`
	Targets     []string `json:"target_types"`
}

type entity struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Aliases []string `json:"aliases"`
}

type relationship struct {
	Source string `json:"source_name"`
	Target string `json:"target_name"`
	Type   string `json:"relationship_type"`
}
