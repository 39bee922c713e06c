package runstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

// Long values are packed: compressed with zstd (RFC 8878) and a dictionary of text that
// repeats in all of them, for example schemas and prompts. A packed value is the byte
// packedForm and a zstd frame, whose header has the number of its dictionary. A value without
// packedForm is plain JSON, which never begins with that byte, as in files of version 1.
const (
	packedForm = 1
	// minPacked is the length in bytes from which a value is packed.
	minPacked = 256
	// A dictionary is the beginning of the first values of its kind, with a length in bytes
	// from minDictionary to maxDictionary.
	minDictionary, maxDictionary = 1 << 10, 96 << 10
	// firstDictionary is the lowest dictionary number that zstd reserves for private use.
	firstDictionary = 1 << 15
)

// The kinds of values. Each has a dictionary of its own.
const (
	dictItems   = "item"
	dictDetails = "detail"
)

// schemaV2 is the addition of version 2 to the schema. A dictionary is stored twice, because
// all values packed with it are lost without it.
const schemaV2 = `
CREATE TABLE dictionary(
	id INTEGER NOT NULL, copy INTEGER NOT NULL, kind TEXT NOT NULL, content BLOB NOT NULL, sum INTEGER NOT NULL,
	PRIMARY KEY(id, copy));
ALTER TABLE detail ADD COLUMN large BLOB;
ALTER TABLE detail ADD COLUMN large_sum INTEGER;
`

// codec packs and unpacks the values of a file. It is safe for concurrent use.
type codec struct {
	mu           sync.Mutex
	maxID        uint32                   // the highest number that is known
	dictionaries map[uint32][]byte        // by number
	encoders     map[string]*zstd.Encoder // by kind
	decoder      *zstd.Decoder
	isUpgraded   atomic.Bool // the file has the newest level
}

// pack returns the packed value. It returns a short value unchanged, and any value if e is nil.
func pack(e *zstd.Encoder, value []byte) []byte {
	if e == nil || len(value) < minPacked {
		return value
	}
	return e.EncodeAll(value, append(make([]byte, 0, len(value)/4), packedForm))
}

// encoderFor returns the encoder of a kind. If the file has no dictionary of the kind, encoderFor
// stores the beginning of sample as dictionary, which is durable when it returns. If sample is
// too short for a dictionary it returns nil.
func (c *codec) encoderFor(ctx context.Context, w *writer, kind string, sample []byte) (*zstd.Encoder, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if existing := c.encoders[kind]; existing != nil {
		return existing, nil
	}
	if len(sample) < minDictionary {
		return nil, nil
	}
	id := max(c.maxID+1, firstDictionary)
	content := append([]byte(nil), sample[:min(len(sample), maxDictionary)]...)
	err := w.submit(ctx, 2*len(content), func(t *tx) error {
		for copyIndex := range 2 {
			if err := t.exec("INSERT INTO dictionary(id, copy, kind, content, sum) VALUES(?, ?, ?, ?, ?)",
				id, copyIndex, kind, content, sumOfDictionary(id, content).stored()); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = c.add(kind, id, content)
	}
	return c.encoders[kind], err
}

func sumOfDictionary(id uint32, content []byte) sum {
	return sum{}.number(int64(id), true).value(content, true)
}

// add adds a dictionary to the encoders and the decoder. The caller holds c.mu.
func (c *codec) add(kind string, id uint32, content []byte) error {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderDictRaw(id, content), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(128<<10), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	c.dictionaries[id], c.encoders[kind], c.maxID = content, encoder, max(c.maxID, id)
	options := []zstd.DOption{zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxValue), zstd.WithDecoderLowmem(true)}
	for id, content := range c.dictionaries {
		options = append(options, zstd.WithDecoderDictRaw(id, content))
	}
	c.decoder, err = zstd.NewReader(nil, options...)
	return err
}

func newCodec() (*codec, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxValue), zstd.WithDecoderLowmem(true))
	return &codec{dictionaries: map[uint32][]byte{}, encoders: map[string]*zstd.Encoder{}, decoder: decoder}, err
}

// readDictionaries adds the new dictionaries of the file. It skips copies with a wrong
// checksum.
func (v view) readDictionaries(ctx context.Context) error {
	c := v.codec
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := queryPage(ctx, v, func(rows *sql.Rows) (none struct{}, _ int, err error) {
		var id uint32
		var kind string
		var content []byte
		var storedSum sql.NullInt64
		if err := rows.Scan(&id, &kind, &content, &storedSum); err != nil {
			return none, 0, err
		}
		c.maxID = max(c.maxID, id) // a damaged dictionary keeps its number
		if c.dictionaries[id] == nil && sumOfDictionary(id, content).check(storedSum, "a dictionary") == nil {
			err = c.add(kind, id, content)
		}
		return none, 0, err
	}, "SELECT id, kind, content, sum FROM dictionary WHERE id > ? ORDER BY id, copy", c.maxID)
	return err
}

// unpack returns the original of a packed value, and any other value unchanged.
func (v view) unpack(ctx context.Context, value []byte) ([]byte, error) {
	if len(value) == 0 || value[0] != packedForm {
		return value, nil
	}
	plain, err := v.codec.decode(value[1:])
	if errors.Is(err, zstd.ErrUnknownDictionary) { // it may be newer than the last read
		if err = v.readDictionaries(ctx); err == nil {
			plain, err = v.codec.decode(value[1:])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("it cannot be unpacked: %w", err)
	}
	return plain, nil
}

func (c *codec) decode(frame []byte) ([]byte, error) {
	c.mu.Lock()
	decoder := c.decoder
	c.mu.Unlock()
	return decoder.DecodeAll(frame, nil)
}

// The levels of the tables of a file, each with all of the one before. The oldest files have 0.
const (
	withSums   = 1 // rows have checksums
	withPacked = 2 // values may be packed, and the file has their dictionaries
)

// level returns the level of the file, which is withPacked for a new or upgraded one. Once the
// file has that, level does not query it again.
func (v view) level(ctx context.Context) (int, error) {
	if v.codec.isUpgraded.Load() {
		return withPacked, nil
	}
	level, err := queryValue[int](ctx, v, "SELECT count(*) FROM pragma_table_info('detail') WHERE name IN ('sum', 'large')")
	v.codec.isUpgraded.Store(err == nil && level == withPacked)
	return level, err
}

// optionalColumns returns names for a list of columns, each replaced by NULL if the file does
// not have them.
func optionalColumns(exists bool, names string) string {
	if exists {
		return ", " + names
	}
	return strings.Repeat(", NULL", 1+strings.Count(names, ","))
}

// upgrade brings an older file to the newest level. After that older programs refuse it.
func (t *tx) upgrade(ctx context.Context) error {
	level, err := t.level(ctx)
	if err != nil || level == withPacked {
		return err
	}
	script := "BEGIN IMMEDIATE;"
	if level < withSums {
		script += sqlAddSums
	}
	return t.exec(script + schemaV2 + fmt.Sprintf("PRAGMA user_version=%d; COMMIT;", fileVersion))
}
