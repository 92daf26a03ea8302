"""Segment IDs (DESIGN's section 6), as transitions: one tag; any number of daemons, sessions of the database, writes of high and IDs.

A write of high is a message: ZooKeeper takes it at once, later or never, and its sender gets the answer, or not. So is a COMMIT to its
session. A session holds the row lock, and its UPDATE counts at COMMIT; or it is lockless (a multiplexer lost autocommit=0), and its
UPDATE counts at once. Each may end at any time, rolled back, and none outlives the table that it began on.
"""

from kit import *

Daemon, Session, Write = (DeclareSort(n) for n in ("Daemon", "Session", "Write"))
Phase, (IDLE, LOCKED, UPDATED, HIGH_SENT, HIGH_TAKEN, COMMIT_SENT, COMMITTED, MARKED) = EnumSort(
    "FetchPhase", ("idle", "locked", "updated", "high_sent", "high_taken", "commit_sent", "committed", "marked"))

ONE_TABLE = [True]  # False: the table is anything at any time, and nothing is fetched without ZooKeeper
DAEMONS = []  # in a run: those that there are


def one_table(term):
    """What counts where there is one table."""
    return term if ONE_TABLE[0] else BoolVal(True)


# A write of high: its value, and on what condition: high's version, the root's, and the connection; what was read of high, and of the
# root's losses; losses of data by then; who sent it, whether for a fetch (or as a raise), and of which session.
to, version_of, root_of, conn_of, high_read, losses_read, losses_then = (Function(n, Write, Number) for n in (
    "to", "version_of", "root_of", "conn_of", "high_read", "losses_read", "losses_then"))
sender, of_fetch, session_of = Function("sender", Write, Daemon), Function("of_fetch", Write, Flag), Function("session_of", Write, Session)
lockless, of_unguarded, owner = Function("lockless", Session, Flag), Function("of_unguarded", Session, Flag), Function("owner", Session, Daemon)

PARTS = dict(
    # The row; its lock: held, by an operator's command or by a session; a delete has written high since ZooKeeper's last loss; a create
    # has written high and not committed.
    row=(Flag,), max_id=(Number,), locked=(Flag,), by_operator=(Flag,), holder=(Session,), deleting=(Flag,), creating=(Flag,), create_at=(Number,),
    # Sessions: begun, open, max_id as read, updated and to what, COMMIT sent, and carried out.
    begun=(Session, Flag), open=(Session, Flag), as_read=(Session, Number), updated=(Session, Flag), hi_of=(Session, Number),
    commit_sent=(Session, Flag), committed=(Session, Flag),
    # ZooKeeper: high (version -1: absent), the root, connections, writes.
    high=(Number,), version=(Number,), root=(Number,), conn=(Number,), losses=(Number,), sent=(Write, Flag), accepted=(Write, Flag),
    # What a daemon knows of ZooKeeper.
    knows=(Daemon, Flag), k_version=(Daemon, Number), k_high=(Daemon, Number), k_root=(Daemon, Number), k_losses=(Daemon, Number),
    k_conn=(Daemon, Number),
    # Its fetch: without ZooKeeper or not, the session, the range, and what it knew when it chose that.
    phase=(Daemon, Phase), unguarded=(Daemon, Flag), session=(Daemon, Session), lo=(Daemon, Number), hi=(Daemon, Number),
    f_version=(Daemon, Number), f_high=(Daemon, Number), f_root=(Daemon, Number), f_losses=(Daemon, Number), f_conn=(Daemon, Number),
    asked=(Daemon, Write),
    # Its mark; whether that has what was not raised; the loss that it raised for; a raise without an answer. Its memory.
    mark=(Daemon, Number), unraised=(Daemon, Flag), raised_for=(Daemon, Number), raising=(Daemon, Flag), raise_asked=(Daemon, Write),
    memory=(Daemon, Number, Flag),
    # What is in no program: ever in a daemon's memory, taken by an outsider, used, by which daemon, used twice. The table lost commits
    # since; high covers all; an outsider fetched since, or ever; the last loss of data is noted; its number, ever; losses of data.
    published=(Daemon, Number, Flag), outside=(Number, Flag), used=(Number, Flag), used_by=(Number, Daemon), used_twice=(Flag,),
    table_lost=(Flag,), covered=(Flag,), outsider_since=(Flag,), outsider_ever=(Flag,), noted=(Flag,), losses_ever=(Number,),
    data_lost=(Number,))


def holds(s, x):
    return And(s.locked(), Not(s.by_operator()), s.holder() == x)


def current(s, version, root, conn):
    """A write's conditions are true."""
    return And(rule("high-mark-decides", version == s.version()), rule("high-mark-decides/root", root == s.root()),
               rule("high-mark-decides/connection", conn == s.conn()))


def every_daemon(f):
    d = Const("every_d", Daemon)
    return And(*[f(x) for x in DAEMONS]) if DAEMONS else ForAll([d], f(d))


# What a daemon reads of ZooKeeper: the root, then high.

def read_root(s, d: Daemon):
    RULES.add("high-mark-decides/root-read-first")
    after = s.at(d, k_root=s.root(), k_losses=s.losses(), k_conn=s.conn())
    return [], after if "high-mark-decides/root-read-first" in OUT else after.at(d, knows=False)


def read_high(s, d: Daemon):
    return [rule("high-mark-decides/connection", s.k_conn(d) == s.conn())], s.at(d, knows=True, k_version=s.version(), k_high=s.high())


# A fetch, in its order.

def select(s, d: Daemon, x: Session):
    locks = Not(lockless(x))
    return [s.phase(d) == IDLE, Not(s.begun(x)), owner(x) == d, s.row(), Implies(locks, one_table(Not(s.locked()))),
            Implies(of_unguarded(x), And(BoolVal(ONE_TABLE[0]), one_table(assume("behind-unguarded", Not(s.table_lost())))))], \
        s.at(d, phase=LOCKED, unguarded=of_unguarded(x), session=x).at(
            x, begun=True, open=True, as_read=s.max_id(), updated=False, commit_sent=False, committed=False).set(
            locked=Or(locks, s.locked()), by_operator=And(lockless(x), s.by_operator()), holder=If(locks, x, s.holder()))


def chosen_range(s, d, lo, hi):
    guarded = And(s.knows(d), rule("moved-forward/high", lo >= s.k_high(d)))
    return And(rule("moved-forward", lo >= s.as_read(s.session(d))), lo >= 0, lo < hi,
               If(s.unguarded(d), rule("moved-forward/own-mark", lo >= s.mark(d)), guarded))


def chooses(s, d, lo, hi):
    return s.at(d, phase=UPDATED, lo=lo, hi=hi, f_version=s.k_version(d), f_root=s.k_root(d), f_high=s.k_high(d), f_conn=s.k_conn(d),
                f_losses=s.k_losses(d))


def update(s, d: Daemon, lo: Number, hi: Number):
    """Under the lock."""
    x = s.session(d)
    return [s.phase(d) == LOCKED, s.open(x), Not(lockless(x)), one_table(holds(s, x)), chosen_range(s, d, lo, hi)], \
        chooses(s, d, lo, hi).at(x, updated=True, hi_of=hi)


def update_at_once(s, d: Daemon, lo: Number, hi: Number):
    """Without it."""
    x = s.session(d)
    return [s.phase(d) == LOCKED, s.open(x), lockless(x), one_table(Not(s.locked())), s.row(), chosen_range(s, d, lo, hi),
            rule("conditional-update", s.max_id() == s.as_read(x)),
            Implies(s.unguarded(d), one_table(assume("behind-unguarded", Not(s.table_lost()))))], \
        chooses(s, d, lo, hi).at(x, updated=True, hi_of=hi, as_read=hi).at(d, unraised=Or(s.unraised(d), s.unguarded(d))).set(
            max_id=hi, covered=And(s.covered(), Not(s.unguarded(d))))


def send_high(s, d: Daemon, m: Write):
    return [s.phase(d) == UPDATED, Not(s.unguarded(d)), Not(s.sent(m)), sender(m) == d, of_fetch(m), session_of(m) == s.session(d),
            to(m) == s.hi(d), version_of(m) == s.f_version(d), root_of(m) == s.f_root(d), high_read(m) == s.f_high(d),
            losses_read(m) == s.f_losses(d), conn_of(m) == s.conn(), losses_then(m) == s.data_lost(),
            rule("high-mark-decides/connection", s.f_conn(d) == s.conn())], s.at(m, sent=True).at(d, asked=m, phase=HIGH_SENT)


def guards(s, m):
    """It is of a fetch that holds the row."""
    d = sender(m)
    return And(of_fetch(m), s.phase(d) == HIGH_SENT, s.asked(d) == m, holds(s, s.session(d)))


def take(s, m: Write):
    return [s.sent(m), Not(s.accepted(m)), current(s, version_of(m), root_of(m), conn_of(m))], \
        s.at(m, accepted=True).set(high=to(m), version=s.version() + 1, covered=Or(s.covered(), guards(s, m)),
                                   outsider_since=And(s.outsider_since(), Not(guards(s, m))))


def answer_high(s, d: Daemon):
    return [s.phase(d) == HIGH_SENT, s.accepted(s.asked(d))], s.at(d, phase=HIGH_TAKEN)


def conflict(s, d: Daemon):
    """The write was refused: lo is chosen again under the same lock."""
    m = s.asked(d)
    return [s.phase(d) == HIGH_SENT, Not(s.accepted(m)), Not(current(s, version_of(m), root_of(m), conn_of(m)))], s.at(d, phase=LOCKED)


def send_commit(s, d: Daemon):
    return [Or(s.phase(d) == UPDATED, s.phase(d) == HIGH_TAKEN), Implies(s.unguarded(d), s.phase(d) == UPDATED),
            rule("lock-then-high", Or(s.unguarded(d), s.phase(d) == HIGH_TAKEN))], \
        s.at(d, phase=COMMIT_SENT).at(s.session(d), commit_sent=True)


def commit(s, x: Session):
    d, locks = owner(x), Not(lockless(x))
    counts = And(locks, of_unguarded(x))
    return [s.open(x), s.commit_sent(x), Or(lockless(x), And(one_table(holds(s, x)), s.updated(x)))], \
        s.at(x, open=False, committed=True).at(d, unraised=Or(s.unraised(d), counts)).set(
            max_id=If(locks, s.hi_of(x), s.max_id()), locked=And(s.locked(), Or(lockless(x), BoolVal(not ONE_TABLE[0]))),
            table_lost=And(s.table_lost(), Or(lockless(x), of_unguarded(x))), covered=And(s.covered(), Not(counts)))


def answer_commit(s, d: Daemon):
    return [s.phase(d) == COMMIT_SENT, rule("committed-alone", s.committed(s.session(d)))], s.at(d, phase=COMMITTED)


def write_mark(s, d: Daemon):
    return [s.phase(d) == COMMITTED], s.at(d, phase=MARKED, mark=greater(s.mark(d), s.hi(d)))


def publish(s, d: Daemon):
    """The range is in memory."""
    def adds(part):
        return lambda e, t: Or(part(e, t), And(e == d, within(s.lo(d), t, s.hi(d))))

    return [Or(*[s.phase(d) == p for p in (HIGH_TAKEN, COMMITTED, MARKED)]), rule("lock-then-high/commit", s.phase(d) != HIGH_TAKEN),
            rule("marks-before-use", s.phase(d) != COMMITTED)], \
        s.at(d, phase=IDLE).set(memory=adds(s.memory), published=adds(s.published))


def use(s, d: Daemon, t: Number):
    return [s.memory(d, t)], s.at((d, t), memory=False).at(t, used=True, used_by=d).set(used_twice=Or(s.used_twice(), s.used(t)))


def give_up(s, d: Daemon):
    return [], s.at(d, phase=IDLE)


def crash(s, d: Daemon):
    return [], s.at(d, phase=IDLE, knows=False, raising=False).set(memory=lambda e, t: And(e != d, s.memory(e, t)))


def session_ends(s, x: Session):
    return [s.open(x)], s.at(x, open=False).set(locked=And(s.locked(), Not(holds(s, x))))


# After a loss of data.

def between_high_and_mark(s, d):
    return Or(*[s.phase(d) == p for p in (HIGH_SENT, HIGH_TAKEN, COMMIT_SENT, COMMITTED, MARKED)], And(s.phase(d) == UPDATED, s.unguarded(d)))


def send_raise(s, d: Daemon, m: Write):
    """The mark is raised into high."""
    return [Not(s.raising(d)), rule("raised-after-a-loss/fetches-end-first", Not(between_high_and_mark(s, d))), s.knows(d),
            Not(s.sent(m)), sender(m) == d, Not(of_fetch(m)), to(m) == greater(s.k_high(d), s.mark(d)), version_of(m) == s.k_version(d),
            root_of(m) == s.k_root(d), high_read(m) == s.k_high(d), losses_read(m) == s.k_losses(d), conn_of(m) == s.conn(),
            losses_then(m) == s.data_lost(), rule("high-mark-decides/connection", s.k_conn(d) == s.conn())], \
        s.at(m, sent=True).at(d, raising=True, raise_asked=m)


def answer_raise(s, d: Daemon):
    m = s.raise_asked(d)
    covers = And(rule("raised-after-a-loss/as-sent", s.mark(d) <= to(m)),
                 rule("raised-after-a-loss/fetches-end-first", Not(And(s.unguarded(d), between_high_and_mark(s, d)))))
    return [s.raising(d), rule("raised-after-a-loss", s.accepted(m))], \
        s.at(d, raising=False, raised_for=losses_read(m), unraised=And(s.unraised(d), Not(covers)))


def no_answer(s, d: Daemon):
    return [], s.at(d, raising=False)


def note_loss(s):
    """Its number, (losses, lost_at), is new."""
    RULES.add("raised-after-a-loss/number")
    number = s.losses() + 1 if "raised-after-a-loss/number" in OUT else s.losses_ever() + 1
    return [], s.set(losses=number, losses_ever=greater(s.losses_ever(), s.losses()) + 1, root=s.root() + 1, noted=True)


def root_written(s):
    return [], s.set(root=s.root() + 1)


def all_raised(s):
    return And(s.noted(), Not(s.outsider_since()), every_daemon(lambda d: And(s.raised_for(d) == s.losses(), Not(s.unraised(d)))))


def table_loses(s, n: Number, there: Flag):
    """It loses commits, or is another server's, or the row is deleted by SQL and made again."""
    ends = dict(open=lambda x: BoolVal(False), locked=False, deleting=False, creating=False) if ONE_TABLE[0] else {}
    raised = BoolVal(False) if "raises-count" in OUT else all_raised(s)
    return [n >= 0, one_table(assume("both-lose", Or(s.covered(), s.table_lost(), raised)))], \
        s.set(max_id=n, row=there, table_lost=True, **ends)


def zookeeper_loses(s, h: Number, version: Number, losses: Number, root: Number, conn: Number):
    return [h >= 0, version >= -1, Implies(version == -1, h == 0), losses <= s.losses_ever(), conn >= s.conn(),
            assume("both-lose", Not(s.table_lost())),
            assume("connections-end", Or(conn == s.conn() + 1, And(conn == s.conn(), root > s.root())))], \
        s.set(high=h, version=version, losses=losses, root=root, conn=conn, data_lost=s.data_lost() + 1, covered=False,
              outsider_since=Or(s.outsider_since(), s.outsider_ever()), noted=False, deleting=False)


def outsider(s, n: Number):
    """A Java Leaf: all of its range is used at once."""
    lo, hi, t = s.max_id(), s.max_id() + n, Const("outside_t", Number)
    return [s.row(), n > 0, Not(s.locked()), assume("behind-outsider", Not(s.table_lost()))], \
        s.set(max_id=hi, outside=lambda t: Or(s.outside(t), within(lo, t, hi)), used=lambda t: Or(s.used(t), within(lo, t, hi)),
              used_twice=Or(s.used_twice(), Exists([t], And(within(lo, t, hi), s.used(t)))), covered=False, outsider_since=True, outsider_ever=True)


def max_id_raised(s, n: Number):
    return [s.row(), n >= s.max_id(), one_table(Not(s.locked()))], s.set(max_id=n)


# Delete and create.

def delete_locks(s):
    return [s.row(), one_table(Not(s.locked()))], s.set(locked=True, by_operator=True, deleting=False)


def deletes(s):
    return And(s.locked(), s.by_operator(), Not(s.creating()))


def delete_high(s):
    RULES.add("deleted-mark-stays")
    after = s.set(deleting=True)
    if "deleted-mark-stays" not in OUT:
        after = after.set(high=greater(s.high(), s.max_id()), version=s.version() + 1, covered=True, outsider_since=False)
    return [deletes(s)], after


def delete_row(s):
    return [deletes(s), assume("both-lose", s.deleting())], s.set(locked=False, by_operator=False, row=False, table_lost=True, deleting=False)


def delete_ends(s):
    return [deletes(s)], s.set(locked=False, by_operator=False, deleting=False)


def create_high(s, n: Number):
    """INSERT, which holds the row; then high."""
    return [Not(s.row()), n >= 0, Not(s.locked()), rule("deleted-mark-stays/create-above", n >= s.high())], \
        s.set(version=s.version() + 1, creating=True, create_at=n, locked=True, by_operator=True, deleting=False)


def create_commits(s):
    return [s.creating(), Not(s.row())], \
        s.set(row=True, max_id=s.create_at(), creating=False, table_lost=False, locked=False, by_operator=False)


def create_ends(s):
    return [s.creating()], s.set(creating=False, locked=False, by_operator=False)


ANY_TABLE = [read_root, read_high, select, update, update_at_once, send_high, take, answer_high, conflict, send_commit, commit,
             answer_commit, write_mark, publish, use, give_up, crash, session_ends, send_raise, answer_raise, no_answer, note_loss,
             root_written, table_loses, max_id_raised, delete_locks, delete_high, delete_row, delete_ends, create_high, create_commits,
             create_ends]
WITH_LOSSES = ANY_TABLE + [zookeeper_loses, outsider]
