"""Runs of segment IDs: each rule and exclusion taken out, and then two equal IDs; the same with all in place; and each transition."""

from segments_proof import *

ANY, ONE = STAGES["any table"], STAGES["one table"]


def first():
    """The first state, with numbers in it."""
    values = {Number: IntVal(0), Flag: BoolVal(False), Phase: IDLE}
    s = State({n: (lambda v: lambda *args: v)(values.get(sorts[-1], Const(f"{sorts[-1]}0", sorts[-1]))) for n, sorts in PARTS.items()})
    DAEMONS.extend(Const(n, Daemon) for n in ("a", "b", "c"))
    return s.set(row=True, version=-1, k_conn=lambda d: IntVal(-1), covered=True, noted=True), [], \
        {Daemon: ["Daemon0"], Session: ["Session0"], Write: ["Write0"]}


def repeats(s):
    return s.used_twice()


def tell(value, log, names):
    """The ranges, what is used, and what table and high are where they change."""
    said = []
    for step, args, s in log:
        match step[0]:
            case "update" | "update_at_once":
                said.append(f"{step[1]} [{value(s.lo(args[0]))},{value(s.hi(args[0]))})")
            case "use":
                said.append(f"{step[1]} uses {value(args[1])}")
            case "table_loses" | "create_commits" | "row_made_late":
                said.append(f"max_id {value(s.max_id())}")
            case "outsider":
                said.append(f"an outsider to {value(s.max_id())}")
            case "take" | "zookeeper_loses" | "delete_high":
                said.append(f"high {value(s.high())}")
    return ", ".join(said)


# Steps that a rule has no place for.

def keep_memory_of_another_store(s, d: Daemon, lo: Number, hi: Number):
    return [s.phase(d) == IDLE, s.mark(d) == 0, 0 <= lo, lo < hi], \
        s.at(d, mark=hi).set(**{n: (lambda f: lambda e, t: Or(f(e, t), And(e == d, within(lo, t, hi))))(getattr(s, n)) for n in ("memory", "published")})


def row_made_late(s, n: Number):
    """An INSERT that was decided on before another delete and create."""
    return [Not(s.row()), Not(s.locked())], s.set(row=True, max_id=n, table_lost=False)


STEPS = {f.__name__: f for f in (*WITH_LOSSES, keep_memory_of_another_store, row_made_late)}


# Parts of runs: t is used twice.

def look(d):
    return f"read_root {d}; read_high {d}"


def begun(d, x, m, updates="update"):
    return f"{look(d)}; select {d} {x}; {updates} {d}; send_high {d} {m}"


def done(d, x):
    return f"answer_high {d}; send_commit {d}; commit {x}; answer_commit {d}; write_mark {d}; publish {d}"


def fetch(d, x, m, updates="update"):
    return f"{begun(d, x, m, updates)}; take {m}; {done(d, x)}"


def unguarded(d, x, updates="update"):
    return f"select {d} {x}; {updates} {d}; send_commit {d}; commit {x}; answer_commit {d}; write_mark {d}; publish {d}"


def raises(d, m):
    return f"{look(d)}; send_raise {d} {m}; take {m}; answer_raise {d}"


A, TABLE_LOST, DATA_LOST = fetch("a", "x1", "m1"), "table_loses 0 yes", "zookeeper_loses 0; note_loss"
DELETE, CREATE = "delete_locks; delete_high; delete_row", "create_high; create_commits"
USED = f"{A}; use a t"
B_USES, C_USES = f"{fetch('b', 'x2', 'm2')}; use b t", f"{TABLE_LOST}; {fetch('c', 'x5', 'm5')}; use c t"
ALL_RAISE = f"{raises('a', 'm6')}; {raises('b', 'm7')}; {raises('c', 'm8')}"
# a gives a fetch up; ZooKeeper is set back, b fetches, and then a's write of high is taken.
LATE_WRITE = f"{A}; {begun('a', 'x2', 'm2')}; give_up a; session_ends x2; zookeeper_loses 0 -1; note_loss; {fetch('b', 'x3', 'm3')}; use b t; take m2; {C_USES}"
# a has read high; ZooKeeper is set back, and high comes to that version again.
READ_BEFORE = f"{A}; crash a; {look('a')}; zookeeper_loses 0 -1; note_loss; {fetch('b', 'x3', 'm3')}; use b t; read_root a; {TABLE_LOST}; select a x4; update a; send_high a m4; take m4; {done('a', 'x4')}; use a t"
OWN_MARK = f"{unguarded('a', 'x1')}; use a t; {TABLE_LOST}; {unguarded('a', 'x2')}; use a t"
HIGH_TAKEN_BY_A = f"{begun('a', 'x1', 'm1')}; take m1; answer_high a"


def mutant(rule, what, steps, stage=ONE, out=None):
    return Run(rule, what, steps, stage, out=out or (rule,))


MUTANTS = [
    mutant("lock-then-high", "COMMIT comes before high",
           f"{look('a')}; select a x1; update a; send_commit a; commit x1; answer_commit a; write_mark a; publish a; use a t; {TABLE_LOST}; {B_USES}"),
    mutant("lock-then-high/commit", "a range is used before COMMIT", f"{HIGH_TAKEN_BY_A}; publish a; use a t; session_ends x1; {DATA_LOST}; {B_USES}"),
    mutant("committed-alone", "a COMMIT that failed reads as OK",
           f"{HIGH_TAKEN_BY_A}; send_commit a; session_ends x1; answer_commit a; write_mark a; publish a; use a t; {DATA_LOST}; {B_USES}"),
    mutant("conditional-update", "two sessions that lost autocommit=0 add to one max_id",
           "select a x1; select b x2; update_at_once a; update_at_once b; send_commit a; commit x1; answer_commit a; write_mark a; publish a; use a t; "
           "send_commit b; commit x2; answer_commit b; write_mark b; publish b; use b t"),
    mutant("high-mark-decides", "high is written whatever its version",
           f"{begun('a', 'x1', 'm1')}; session_ends x1; {B_USES}; take m1; give_up a; {C_USES}", ANY),
    mutant("high-mark-decides/root", "and whatever the root's: versions begin again where ZooKeeper was set back", LATE_WRITE),
    mutant("high-mark-decides/connection", "and over whatever connection", LATE_WRITE),
    mutant("high-mark-decides/root-read-first", "what was read under an earlier root is kept", READ_BEFORE),
    mutant("moved-forward", "a range begins below max_id", f"outsider 5; {USED}"),
    mutant("moved-forward/high", "a range begins below high", f"{USED}; {TABLE_LOST}; {B_USES}", ANY),
    mutant("moved-forward/own-mark", "without ZooKeeper, on a table that lost commits, a range begins below the own mark (more than is promised)",
           OWN_MARK, out=("moved-forward/own-mark", "both-lose", "behind-unguarded")),
    mutant("marks-before-use", "a range is used before its mark is on disk",
           f"{HIGH_TAKEN_BY_A}; send_commit a; commit x1; answer_commit a; publish a; use a t; {DATA_LOST}; {ALL_RAISE}; {TABLE_LOST}; {B_USES}"),
    mutant("marks-of-their-store", "what another store gave stays in memory", f"keep_memory_of_another_store a; use a t; {B_USES}", ANY),
    mutant("raised-after-a-loss", "marks are taken for raised that were not",
           f"{USED}; {DATA_LOST}; {look('a')}; send_raise a m6; answer_raise a; {raises('b', 'm7')}; {raises('c', 'm8')}; {TABLE_LOST}; {B_USES}"),
    mutant("raised-after-a-loss/fetches-end-first", "a mark is raised while its daemon has a range between high and mark",
           f"{HIGH_TAKEN_BY_A}; {DATA_LOST}; {ALL_RAISE}; send_commit a; commit x1; answer_commit a; write_mark a; publish a; use a t; {TABLE_LOST}; {B_USES}"),
    mutant("raised-after-a-loss/as-sent", "a raise counts for a mark that was made after it was sent",
           f"note_loss; {raises('b', 'm7')}; {raises('c', 'm8')}; {look('a')}; send_raise a m6; take m6; {unguarded('a', 'x1')}; use a t; answer_raise a; {TABLE_LOST}; {B_USES}"),
    mutant("raised-after-a-loss/number", "a loss has the number of an earlier one",
           f"{USED}; note_loss; {ALL_RAISE}; zookeeper_loses 0 -1 0; note_loss; {TABLE_LOST}; {B_USES}"),
    mutant("deleted-mark-stays", "a delete leaves high as it is", f"outsider 5; {DELETE}; {CREATE}; {fetch('a', 'x2', 'm2')}; use a t"),
    mutant("deleted-mark-stays/create-above", "a tag that is made again begins below high", f"{USED}; {DELETE}; {CREATE}; {unguarded('b', 'x2')}; use b t"),
    mutant("deleted-mark-stays/create-above", "a create writes high first and then INSERTs, and another comes between",
           f"{DELETE}; create_high 0; create_ends; create_high 0; create_commits; {USED}; {DELETE}; row_made_late 0; {unguarded('b', 'x2')}; use b t", out=("nothing",)),
    mutant("both-lose", "ZooKeeper loses its data, and then the table commits", f"{USED}; {DATA_LOST}; {TABLE_LOST}; {B_USES}"),
    mutant("both-lose", "the table, and then ZooKeeper: also with several hosts and `require`", f"{USED}; {TABLE_LOST}; {DATA_LOST}; {B_USES}"),
    mutant("both-lose", "the table loses a range that was fetched without ZooKeeper, before it was raised", f"{unguarded('a', 'x1')}; use a t; {TABLE_LOST}; {B_USES}"),
    mutant("both-lose", "the table loses a Java Leaf's range", f"outsider 5; {TABLE_LOST}; {B_USES}"),
    mutant("both-lose", "a tag is deleted, ZooKeeper loses its data, the tag is made again", f"{USED}; {DELETE}; {DATA_LOST}; {CREATE}; {B_USES}"),
    mutant("behind-unguarded", "a table that lost commits, or another host, is fetched from without ZooKeeper", f"{USED}; {TABLE_LOST}; {unguarded('b', 'x2')}; use b t"),
    mutant("behind-outsider", "or by a Java Leaf", f"{USED}; {TABLE_LOST}; outsider"),
    mutant("connections-end", "ZooKeeper is set back, and connections go on", LATE_WRITE),
]

IN_PLACE = [Run("nothing", what, steps, stage, out, "never repeats") for what, steps, stage, out in [
    ("a table that lost commits", f"{USED}; {TABLE_LOST}; {B_USES}", ANY, ()),
    ("losses of both, with a guarded fetch in between", f"{USED}; {DATA_LOST}; {fetch('b', 'x2', 'm2')}; {C_USES}", ONE, ()),
    ("a late write after a set-back", LATE_WRITE, ONE, ()), ("what was read before one", READ_BEFORE, ONE, ()),
    ("an own mark without ZooKeeper", OWN_MARK, ONE, ("both-lose", "behind-unguarded")),
    ("all raise before the table loses commits", f"{USED}; {DATA_LOST}; {ALL_RAISE}; {TABLE_LOST}; {B_USES}", ONE, ()),
    ("a range of another, fetched without ZooKeeper, that a guarded fetch under the row's lock covers, though given up",
     f"{unguarded('a', 'x1')}; use a t; {begun('b', 'x2', 'm2')}; take m2; give_up b; session_ends x2; {C_USES}", ONE, ()),
    ("a tag deleted and made again", f"{USED}; {DELETE}; {CREATE}; {B_USES}", ONE, ()),
]]

HAPPENS = [Run("reach", what, steps, ONE, (), "happens") for what, steps in [
    ("conflicts, crashes, rows that are locked or not",
     f"note_loss; root_written; {begun('a', 'x1', 'm1')}; session_ends x1; give_up a; {fetch('b', 'x2', 'm2')}; use b; {look('a')}; select a x3; update a; {raises('b', 'm4')}; "
     f"send_high a m3; conflict a; {look('a')}; update a; send_high a m5; take m5; {done('a', 'x3')}; use a; crash a; max_id_raised; {fetch('a', 'x5', 'm6', 'update_at_once')}; use a"),
    ("fetches without ZooKeeper, outsiders, losses",
     f"{unguarded('a', 'x1')}; use a; {unguarded('b', 'x2', 'update_at_once')}; use b; note_loss; {look('a')}; send_raise a m7; no_answer a; {raises('a', 'm1')}; {raises('b', 'm2')}; "
     f"{raises('c', 'm8')}; {TABLE_LOST}; {fetch('a', 'x3', 'm3')}; use a; outsider 3; {DATA_LOST}; {fetch('b', 'x4', 'm4')}; use b; {TABLE_LOST}; {fetch('b', 'x5', 'm5')}; use b; "
     f"{unguarded('a', 'x6')}; use a"),
    ("deletes and creates",
     f"{A}; use a; crash a; delete_locks; delete_ends; {DELETE}; create_high; create_ends; {CREATE}; {fetch('b', 'x2', 'm2')}; use b; {unguarded('a', 'x4')}; use a"),
]]
