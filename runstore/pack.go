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

// Long values are packed: compressed by zstd (RFC 8878), with a dictionary that holds
// what is the same in all of them, such as schemas and the words of a prompt. A packed
// value is packedForm and a zstd frame, whose head names its dictionary; the row has a sum;
// what does not begin with packedForm is a plain text, as in files of version 1: no JSON
// begins with that byte.
const (
	packedForm = 1
	// minPacked is the length from which a value is packed.
	minPacked = 256
	// A dictionary is the beginning of what came first of its kind, within bounds.
	minDictionary, maxDictionary = 1 << 10, 96 << 10
	// firstDictionary is the lowest number that zstd leaves to programs.
	firstDictionary = 1 << 15
)

// The kinds of values with a dictionary of their own.
const (
	kindOfItems   = "item"
	kindOfDetails = "detail"
)

// schemaPacks is what version 2 adds. A dictionary is written twice: without it nothing
// that was packed with it could be read.
const schemaPacks = `
CREATE TABLE dictionary(
	id INTEGER NOT NULL, copy INTEGER NOT NULL, kind TEXT NOT NULL, content BLOB NOT NULL, sum INTEGER NOT NULL,
	PRIMARY KEY(id, copy));
ALTER TABLE detail ADD COLUMN large BLOB;
ALTER TABLE detail ADD COLUMN large_sum INTEGER;
`

// packs packs and unpacks the values of a file. Safe for concurrent use.
type packs struct {
	mu       sync.Mutex
	newest   uint32             // the highest number that is known
	contents map[uint32][]byte  // by number
	kinds    map[string]*packer // by kind
	decoder  *zstd.Decoder
	complete atomic.Bool // the tables have the newest form
}

// packer packs values of one kind.
type packer struct{ encoder *zstd.Encoder }

// pack returns the packed value, or a short one as it is; none packs nothing.
func (p *packer) pack(value []byte) []byte {
	if p == nil || len(value) < minPacked {
		return value
	}
	return p.encoder.EncodeAll(value, append(make([]byte, 0, len(value)/4), packedForm))
}

func newPacker(id uint32, dictionary []byte) (*packer, error) {
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderDictRaw(id, dictionary), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderCRC(false), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(128<<10), zstd.WithEncoderConcurrency(1))
	return &packer{encoder}, err
}

// of returns the packer of a kind; none before there is a value that is long enough to
// become its dictionary, which is durable when of returns.
func (p *packs) of(ctx context.Context, w *writer, kind string, sample []byte) (*packer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.kinds[kind]; known != nil {
		return known, nil
	}
	if len(sample) < minDictionary {
		return nil, nil
	}
	id := max(p.newest+1, firstDictionary)
	content := append([]byte(nil), sample[:min(len(sample), maxDictionary)]...)
	err := w.submit(ctx, 2*len(content), func(t *tx) error {
		for twin := range 2 {
			if err := t.exec("INSERT INTO dictionary(id, copy, kind, content, sum) VALUES(?, ?, ?, ?, ?)",
				id, twin, kind, content, sumOfDictionary(id, content).column()); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = p.add(kind, id, content)
	}
	return p.kinds[kind], err
}

func sumOfDictionary(id uint32, content []byte) sum {
	return sum{}.number(int64(id), true).value(content, true)
}

// add makes a dictionary known. The lock is held.
func (p *packs) add(kind string, id uint32, content []byte) error {
	made, err := newPacker(id, content)
	if err != nil {
		return err
	}
	p.contents[id], p.kinds[kind], p.newest = content, made, max(p.newest, id)
	options := []zstd.DOption{zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxValue), zstd.WithDecoderLowmem(true)}
	for id, content := range p.contents {
		options = append(options, zstd.WithDecoderDictRaw(id, content))
	}
	p.decoder, err = zstd.NewReader(nil, options...)
	return err
}

func newPacks() (*packs, error) {
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxValue), zstd.WithDecoderLowmem(true))
	return &packs{contents: map[uint32][]byte{}, kinds: map[string]*packer{}, decoder: decoder}, err
}

// readDictionaries makes known what the file has of dictionaries and this process has not
// seen. Of the two copies, one that is not what was written is passed over.
func (v view) readDictionaries(ctx context.Context) error {
	p := v.packs
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := queryPage(ctx, v, func(rows *sql.Rows) (none struct{}, _ int, err error) {
		var id uint32
		var kind string
		var content []byte
		var written sql.NullInt64
		if err := rows.Scan(&id, &kind, &content, &written); err != nil {
			return none, 0, err
		}
		p.newest = max(p.newest, id) // its number is taken, also where it is damaged
		if p.contents[id] == nil && sumOfDictionary(id, content).is(written, "a dictionary") == nil {
			err = p.add(kind, id, content)
		}
		return none, 0, err
	}, "SELECT id, kind, content, sum FROM dictionary WHERE id > ? ORDER BY id, copy", p.newest)
	return err
}

// known reads the dictionaries of a file that may be of version 1.
func (v view) known(ctx context.Context) error {
	have, err := v.form(ctx)
	if err != nil || !have.packs {
		return err
	}
	return v.readDictionaries(ctx)
}

// unpack returns the value that was packed, any other as it is.
func (v view) unpack(ctx context.Context, value []byte) ([]byte, error) {
	if len(value) == 0 || value[0] != packedForm {
		return value, nil
	}
	plain, err := v.packs.decode(value[1:])
	if errors.Is(err, zstd.ErrUnknownDictionary) { // it may have come since
		if err = v.readDictionaries(ctx); err == nil {
			plain, err = v.packs.decode(value[1:])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("it cannot be unpacked: %w", err)
	}
	return plain, nil
}

func (p *packs) decode(frame []byte) ([]byte, error) {
	p.mu.Lock()
	decoder := p.decoder
	p.mu.Unlock()
	return decoder.DecodeAll(frame, nil)
}

// form is what the tables of a file have, which depends on who wrote it.
type form struct{ sums, packs bool }

// form asks the file until it has the newest form, which does not change.
func (v view) form(ctx context.Context) (have form, err error) {
	newest := form{sums: true, packs: true}
	if v.packs.complete.Load() {
		return newest, nil
	}
	err = v.db.QueryRowContext(ctx, `SELECT count(*) FILTER (WHERE name = 'sum'), count(*) FILTER (WHERE name = 'large')
		FROM pragma_table_info('detail')`).Scan(&have.sums, &have.packs)
	v.packs.complete.Store(err == nil && have == newest)
	return have, faultOf(v.path, ErrRead, err)
}

// column names columns that not every file has; NULL where this one has not.
func column(there bool, names string) string {
	if there {
		return ", " + names
	}
	return strings.Repeat(", NULL", 1+strings.Count(names, ","))
}

// upgrade gives an older file what it lacks. Older programs refuse it then.
func (t *tx) upgrade(ctx context.Context) error {
	have, err := t.form(ctx)
	if err != nil || have.packs {
		return err
	}
	script := "BEGIN IMMEDIATE;"
	if !have.sums {
		script += sqlAddSums
	}
	return t.exec(script + schemaPacks + fmt.Sprintf("PRAGMA user_version=%d; COMMIT;", fileVersion))
}
