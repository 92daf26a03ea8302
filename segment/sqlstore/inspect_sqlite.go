package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/leafd/leafd/segment"
)

// ErrNoFile is returned for a SQLite file that is not there, by the inspections and,
// unless it may create one, by Open.
var ErrNoFile = errors.New("no such file")

// InspectSQLite reads the file of a Store through, as OpenSQLite would find it, and
// writes nothing. It returns what each tag has in max_id and step, -1 for what is no
// integer. ErrNoFile, that the file is damaged, or why OpenSQLite would refuse it.
func InspectSQLite(ctx context.Context, path string) (rows []TagFacts, err error) {
	err = inspectFile(ctx, path, table, func(d *database) error {
		rows, err = tagFacts(ctx, d)
		return err
	})
	return rows, err
}

// InspectHighWater is InspectSQLite for the file of HighWater; it returns the mark of each tag.
func InspectHighWater(ctx context.Context, path string) (marks map[string]int64, err error) {
	marks = map[string]int64{}
	err = inspectFile(ctx, path, marksTable, func(d *database) error {
		return (&HighWater{db: d}).Marks(ctx, func(tag string, high int64) { marks[tag] = high })
	})
	return marks, err
}

// TagFacts are what a table has of one tag.
type TagFacts struct {
	Tag         string
	MaxID, Step int64
}

// Tags returns what the table of a Store of MySQL has; see InspectSQLite.
func (i *Inspector) Tags(ctx context.Context) ([]TagFacts, error) { return tagFacts(ctx, i.d) }

func tagFacts(ctx context.Context, d *database) (rows []TagFacts, err error) {
	_, err = newStore(d, d).Each(ctx, segment.View{}, func(tag []byte, maxID, step int64) error {
		rows = append(rows, TagFacts{Tag: string(tag), MaxID: maxID, Step: step})
		return nil
	})
	return rows, err
}

// inspectFile checks the database at path, and calls look with it.
func inspectFile(ctx context.Context, path, wanted string, look func(*database) error) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if log, lerr := os.Stat(path + "-wal"); lerr == nil && log.Size() > 0 {
			return fmt.Errorf("open %s: the file is gone, but its log %s-wal is still there: put the file back", path, path)
		}
		return fmt.Errorf("%w: %s", ErrNoFile, path)
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() == 0) {
		err = ensureFile(path, wanted, "") // which says what is wrong with it, and makes none where there is one
	}
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	d, err := readOnly(path)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	err = d.sound(ctx, wanted)
	if err == nil {
		err = look(d)
	}
	return errors.Join(err, d.close())
}

// readOnly opens the file at path so that nothing beside it is written either. Where
// no log lies beside it, no process has it open, and it is opened as immutable: SQLite
// would make a log otherwise, even to read.
func readOnly(path string) (*database, error) {
	query := "mode=ro&_pragma=busy_timeout(" + busyTimeout + ")"
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		query += "&immutable=1"
	}
	connector, err := sqliteConnector(path, query)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	return &database{db: db, readers: db, dialect: sqliteDialect(), idle: 1, place: path}, nil
}

// sound reads the whole file, and looks for the table.
func (d *database) sound(ctx context.Context, wanted string) error {
	verdict := ""
	err := d.read(ctx, func(rows *sql.Rows) error { return rows.Scan(&verdict) }, "PRAGMA quick_check(1)")
	if err == nil && verdict != "ok" {
		return fmt.Errorf("damaged SQLite file: %s: %s; restore it from a backup, then set max_id above every ID ever issued", d.place, verdict)
	}
	if err == nil {
		err = d.hasTable(ctx, wanted)
	}
	return d.fail(ctx, err, "read the database")
}
