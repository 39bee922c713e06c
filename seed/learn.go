package seed

import (
	"context"
	"crypto/sha256"
	"fmt"

	"extraction-experiment/langfuse"
)

// learn reads the whole dataset once and remembers the shape of every item.
func (s *seeder) learn(ctx context.Context) error {
	s.there = map[[16]byte]shape{}
	if s.cfg.Similar > 0 {
		s.similar = newSimilarDocuments(s.cfg.Similar)
	}
	if s.result.DatasetCreated {
		return nil
	}
	version, err := s.client.CurrentDatasetVersion(ctx, s.cfg.Dataset)
	if err != nil {
		return fmt.Errorf("seeding: %w", err)
	}
	for item, err := range s.client.ListDatasetItems(ctx, langfuse.DatasetItemsQuery{DatasetName: s.cfg.Dataset, Version: version}) {
		if err != nil {
			return fmt.Errorf("seeding: %w", err)
		}
		s.there[key(item.ID)] = shapeOfStored(item)
		if s.similar != nil {
			s.similar.add(item.ID, documentSketch(itemOf(item)))
		}
		s.cfg.progress(Progress{Phase: Comparing, Done: len(s.there)})
	}
	return nil
}

func key(id string) [16]byte {
	sum := sha256.Sum256([]byte(id))
	return [16]byte(sum[:16])
}

func shapeOfStored(item langfuse.DatasetItem) shape {
	return shapeOf(item.Input, item.ExpectedOutput, item.Metadata, item.SourceTraceID, item.SourceObservationID)
}
