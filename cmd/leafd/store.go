package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/leafd/leafd/segment/sqlstore"
)

// redact is a DSN as it may be shown.
func redact(dsn string) string { return sqlstore.RedactDSN(dsn) }

// checkStore checks the DSN. Opening connects to nothing yet, so a server that
// is down is no bad setting.
func (c *Config) checkStore(v *values) {
	if c.MySQL == "" {
		return
	}
	store, err := sqlstore.OpenMySQL(c.MySQL)
	if err == nil {
		err = store.Close()
	}
	if err != nil {
		v.refuse("mysql", err.Error())
	}
}

// openStore opens the store that the settings name: a database, or the SQLite
// file in the data folder, which is made where there is none.
func openStore(_ context.Context, cfg Config) (segmentStore, error) {
	if cfg.MySQL != "" {
		store, err := sqlstore.OpenMySQL(cfg.MySQL)
		if err != nil {
			return nil, err
		}
		return store, nil
	}
	store, err := sqlstore.OpenSQLite(filepath.Join(cfg.DataDir, segmentsFile))
	if err != nil {
		return nil, err
	}
	return store, nil
}

// prepareStore makes the data folder where create is true, for there may have
// been no daemon yet. Otherwise the SQLite file has to be there: looking at a
// mistyped folder must not make a store in it.
func prepareStore(cfg Config, create bool) error {
	if cfg.MySQL != "" {
		return nil
	}
	if create {
		if err := os.Mkdir(cfg.DataDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("data folder: %w", err)
		}
		return nil
	}
	path := filepath.Join(cfg.DataDir, segmentsFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no segment store at %s: check --data-dir or --mysql; leafd serve makes one, and so does leafd segment create", path)
	}
	return nil
}
