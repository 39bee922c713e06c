// Package extraction is the harness of knowledge extraction: the task gives a
// dataset item's document to an extractor, the scorer compares the entities
// and relationships that come back with the expected ones. Here JSON becomes
// domain words, once in each direction; the runner below sees only JSON.
package extraction

import "extraction-experiment/scoring"

// Name is how run files call this harness.
const Name = "extraction"

// Primary is the score by which items are called best and worst.
const Primary = scoring.EntityF1
