package doctor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/leafd/leafd/cmd/leafd/internal/settings"
	"github.com/leafd/leafd/segment/sqlstore"
)

// mysql looks at the database of the segments.
func (p *Patient) mysql(ctx context.Context, r *report) {
	inspector, err := sqlstore.OpenInspector(p.Cfg.Store(false))
	if err != nil {
		r.Fail("mysql", err, "")
		return
	}
	defer inspector.Close() //nolint:errcheck // it was only looked at
	facts, err := inspector.Server(ctx)
	if err != nil {
		r.Fail("mysql", err, "look at the server, the network and --mysql; snowflake IDs need no database")
		return
	}
	switch {
	case facts.ReadOnly:
		r.Fail("mysql", fmt.Errorf("%s, %s, is read-only: it is a replica, or a failover is under way", inspector.Place(), facts.Version), "point --mysql to the primary")
	case facts.StatementBinlog:
		r.Fail("mysql", fmt.Errorf("binlog_format of %s is STATEMENT, with which it refuses what leafd writes at READ COMMITTED", inspector.Place()), "set it to ROW or MIXED")
	default:
		r.OK("mysql", "%s, version %s", inspector.Place(), facts.Version)
	}
	all := append(p.Cfg.Unguarded(), facts.Weak...)
	for _, weak := range all {
		r.Warn("mysql-commits", weak.Found, weak.Do)
	}
	if len(all) == 0 {
		r.OK("mysql-commits", "each is on disk, and none goes to a server that is read-only")
	}
	table, err := inspector.Table(ctx)
	if errors.Is(err, sqlstore.ErrNoTable) {
		do := "create it with deploy/leaf_alloc.sql, and GRANT SELECT, INSERT, UPDATE, DELETE on it to the user of --mysql, which sees no table without"
		if p.hasUsed(ctx) {
			do = "IDs of it were used from this data directory: put it back with its rows, or correct --mysql; make no new one. Its user sees it with GRANT SELECT"
		}
		r.Fail("mysql-table", err, do)
		return
	}
	if err != nil {
		r.Fail("mysql-table", err, "")
		return
	}
	usable := judgeTable(r, table)
	if p.judgePrivileges(ctx, r, inspector) && usable {
		rows, err := inspector.Tags(ctx)
		if err != nil {
			r.Fail("mysql-tags", err, "")
			return
		}
		judgeTags(r, "mysql-tags", rows)
	}
}

// hasUsed reports whether segments were used from this data directory.
func (p *Patient) hasUsed(ctx context.Context) bool {
	_, marks, err := sqlstore.InspectHighWater(ctx, filepath.Join(p.Cfg.DataDir, settings.MarksFile), "")
	return err == nil && marks > 0
}

// judgeTable records whether each range can be taken from the table once only, and reports whether any can be taken. Columns that
// are missing are told by the statements that need them.
func judgeTable(r *report, t sqlstore.TableFacts) bool {
	const check, see = "mysql-table", "see deploy/leaf_alloc.sql"
	var wrong, odd []string
	if t.View {
		wrong = append(wrong, "leaf_alloc is a view")
	} else if !t.Transactional {
		wrong = append(wrong, fmt.Sprintf("its engine %s has no transactions, so that two clients can get one range (ALTER TABLE leaf_alloc ENGINE=InnoDB)", t.Engine))
	}
	if c, found := t.Columns["max_id"]; found && c.Type != "bigint" {
		wrong = append(wrong, fmt.Sprintf("column max_id is %s: want BIGINT", c.Type))
	}
	if !t.UniqueTag {
		odd = append(odd, "no key makes biz_tag unique: a tag with two rows is refused (ALTER TABLE leaf_alloc ADD UNIQUE KEY (biz_tag))")
	}
	tag := t.Columns["biz_tag"]
	if tag.Collation != "" && !strings.HasSuffix(tag.Collation, "_bin") {
		odd = append(odd, fmt.Sprintf("biz_tag has the collation %s, to which tags that differ in case alone are one: the table holds only one of them", tag.Collation))
	}
	if tag.Length > 0 && tag.Length < 128 {
		odd = append(odd, fmt.Sprintf("biz_tag has room for %d characters, and tags may have 128", tag.Length))
	}
	if t.Triggers > 0 {
		odd = append(odd, fmt.Sprintf("the table has %d triggers: none may change max_id", t.Triggers))
	}
	switch {
	case len(wrong) > 0:
		r.Fail(check, errors.New(strings.Join(append(wrong, odd...), "; ")), see)
	case len(odd) > 0:
		r.Warn(check, strings.Join(odd, "; "), see)
	default:
		r.OK(check, "leaf_alloc has the keys that it should have, engine %s", t.Engine)
	}
	return len(wrong) == 0
}

// judgePrivileges returns whether the tags may be read.
func (p *Patient) judgePrivileges(ctx context.Context, r *report, inspector *sqlstore.Inspector) bool {
	const check = "mysql-rights"
	fetch, manage, err := inspector.Privileges(ctx)
	if err != nil { // not one about rights
		r.Fail(check, err, "the rights were not found out: see to what the error says, and ask again")
		return false
	}
	if fetch != nil {
		r.Fail(check, fetch, "GRANT SELECT, UPDATE ON leaf_alloc TO the user of --mysql")
		return false
	}
	if manage != nil {
		r.Warn(check, fmt.Sprintf("ranges can be taken, and tags can't be managed: %v", manage), "GRANT INSERT, UPDATE, DELETE, if leafd is to create, change and delete tags; else nothing")
		return true
	}
	r.OK(check, "ranges can be taken; tags can be created, changed and deleted")
	return true
}
