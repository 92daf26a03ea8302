"""The invariants of segment IDs, each with its sentence; the first state; the three stages."""

from segments import *


def phase_is(s, d, *phases):
    return Or(*[s.phase(d) == p for p in phases])


def acknowledged(s, d):
    """Its high was taken."""
    after = phase_is(s, d, HIGH_TAKEN, COMMIT_SENT, COMMITTED, MARKED)
    return And(Not(s.unguarded(d)), Or(after, And(s.phase(d) == HIGH_SENT, s.accepted(s.asked(d)))))


def in_range(s, d, t):
    return within(s.lo(d), t, s.hi(d))


def gone(s, d, t):
    return Or(s.used(t), s.published(d, t))


def safety(s):
    "No ID is used twice."
    return Not(s.used_twice())


def memory(s, d: Daemon, t: Number):
    "What is in memory was published and not used; what was published lies below the mark."
    return And(Implies(s.memory(d, t), And(s.published(d, t), Not(s.used(t)))), Implies(s.published(d, t), And(0 <= t, t < s.mark(d))))


def users(s, t: Number):
    "What was used its daemon had published, or an outsider took."
    return And(Implies(And(s.used(t), Not(s.outside(t))), s.published(s.used_by(t), t)), Implies(s.outside(t), s.used(t)),
               Implies(s.used(t), t >= 0))


def owners(s, d: Daemon, e: Daemon, t: Number):
    "No ID was in two memories, nor in one and an outsider's."
    return And(Implies(And(s.published(d, t), s.published(e, t)), d == e), Not(And(s.published(d, t), s.outside(t))))


def gone_below_high(s, d: Daemon, t: Number):
    "What was used or published lies below high."
    return Implies(gone(s, d, t), t < s.high())


def acknowledged_below_high(s, d: Daemon):
    "A range whose high was taken lies below high."
    return Implies(acknowledged(s, d), s.hi(d) <= s.high())


def acknowledged_fresh(s, d: Daemon, e: Daemon, t: Number):
    "It has nothing that was used or published, and nothing of another such range."
    other = Implies(And(acknowledged(s, e), in_range(s, e, t)), d == e)
    return Implies(And(acknowledged(s, d), in_range(s, d, t)), And(Not(s.used(t)), Not(s.published(e, t)), other))


def guarded_only(s, d: Daemon, t: Number):
    "Nothing is fetched without ZooKeeper, or by outsiders."
    return And(Implies(s.phase(d) != IDLE, Not(s.unguarded(d))), Not(s.outside(t)))


def true_once(s, version, root, conn, stands):
    """Conditions that were true once: where they are, what was read stands."""
    same = And(version <= s.version(), Implies(version == s.version(), stands))
    return And(conn <= s.conn(), Implies(conn == s.conn(), And(root <= s.root(), Implies(root == s.root(), same))))


def writes(s, m: Write):
    "A write's conditions were true once; where they are, what it read stands, and it was not taken."
    stands = And(high_read(m) == s.high(), Not(s.accepted(m)))
    return And(Implies(s.sent(m), And(to(m) >= high_read(m), true_once(s, version_of(m), root_of(m), conn_of(m), stands))),
               Implies(s.accepted(m), s.sent(m)))


def known(s, d: Daemon):
    "So it is with what a daemon knows."
    same = And(s.k_version(d) <= s.version(), Implies(s.k_version(d) == s.version(), s.k_high(d) == s.high()))
    root = And(s.k_root(d) <= s.root(), Implies(And(s.knows(d), s.k_root(d) == s.root()), same))
    return And(s.k_conn(d) <= s.conn(), Implies(s.k_conn(d) == s.conn(), root))


def fetch_known(s, d: Daemon):
    "And with what a fetch has chosen its range by."
    stands = true_once(s, s.f_version(d), s.f_root(d), s.f_conn(d), s.f_high(d) == s.high())
    return Implies(And(s.phase(d) == UPDATED, Not(s.unguarded(d))), And(s.lo(d) >= s.f_high(d), stands))


def fetch_write(s, d: Daemon):
    "A fetch waits for a write of its own."
    m, sent = s.asked(d), phase_is(s, d, HIGH_SENT, HIGH_TAKEN, COMMIT_SENT, COMMITTED, MARKED)
    own = And(s.sent(m), sender(m) == d, of_fetch(m), session_of(m) == s.session(d), to(m) == s.hi(d), high_read(m) <= s.lo(d),
              Implies(s.phase(d) != HIGH_SENT, s.accepted(m)))
    return And(Implies(And(Not(s.unguarded(d)), sent), own),
               Implies(Not(phase_is(s, d, IDLE, LOCKED)), And(0 <= s.lo(d), s.lo(d) < s.hi(d))),
               Implies(s.phase(d) == MARKED, s.hi(d) <= s.mark(d)), s.high() >= 0, s.version() >= -1, Implies(s.version() == -1, s.high() == 0))


BOTH = [safety, memory, users, owners, writes, known, fetch_known, fetch_write]
HIGH_ALONE = BOTH + [gone_below_high, acknowledged_below_high, acknowledged_fresh, guarded_only]


# One table, fetches without ZooKeeper, outsiders, losses of both.

def in_table(s, x):
    """The session's UPDATE stands in the table."""
    return Or(s.committed(x), And(s.open(x), lockless(x), s.updated(x)))


def usable(s, d):
    """The range may still come into memory."""
    x = s.session(d)
    lives = Or(s.committed(x), And(s.open(x), Or(lockless(x), holds(s, x))))
    return Or(And(acknowledged(s, d), lives),
              And(s.unguarded(d), phase_is(s, d, UPDATED, COMMIT_SENT, COMMITTED, MARKED), in_table(s, x)))


def raised(s, d):
    return And(s.noted(), s.raised_for(d) == s.losses(), Not(s.unraised(d)))


def may_be_taken(s, d):
    """Its high may be."""
    m = s.asked(d)
    chosen = And(s.phase(d) == UPDATED, s.f_conn(d) == s.conn(), s.f_root(d) == s.root(), s.f_version(d) == s.version())
    sent = And(s.phase(d) == HIGH_SENT, Not(s.accepted(m)), conn_of(m) == s.conn(), root_of(m) == s.root(), version_of(m) == s.version())
    return And(Not(s.unguarded(d)), Or(chosen, sent))


def at_once(s, d):
    """A fetch's session updated without a lock."""
    x = s.session(d)
    return And(s.phase(d) != IDLE, s.open(x), lockless(x), s.updated(x))


def gone_in_table(s, d: Daemon, t: Number):
    "While the table has lost nothing, what was used or published lies below max_id."
    return Implies(And(Not(s.table_lost()), gone(s, d, t)), t < s.max_id())


def gone_in_high(s, d: Daemon, t: Number):
    "Once it has, and where high covers all, below high."
    return Implies(And(Or(s.table_lost(), s.covered()), gone(s, d, t)), t < s.high())


def gone_raised(s, d: Daemon, t: Number):
    "So does what a daemon published that has raised for the loss; and what outsiders took, once a guarded fetch was made since."
    return And(Implies(And(raised(s, d), s.published(d, t)), t < s.high()), Implies(And(s.outside(t), Not(s.outsider_since())), t < s.high()),
               Implies(s.outside(t), s.outsider_ever()))


def usable_in_table(s, d: Daemon):
    "A usable range that stands in the table lies below max_id, while the table has lost nothing."
    return Implies(And(usable(s, d), in_table(s, s.session(d)), Not(s.table_lost())), s.hi(d) <= s.max_id())


def usable_in_high(s, d: Daemon):
    "Once it has, and where high covers all, below high."
    return Implies(And(usable(s, d), Or(s.table_lost(), s.covered())), s.hi(d) <= s.high())


def usable_raised(s, d: Daemon):
    "So where its daemon has raised."
    return And(Implies(And(usable(s, d), raised(s, d)), s.hi(d) <= s.high()), Implies(And(usable(s, d), s.unguarded(d)), s.unraised(d)))


def usable_fresh(s, d: Daemon, e: Daemon, t: Number):
    "It has nothing that was used or published, and nothing of another usable range."
    other = Implies(And(usable(s, e), in_range(s, e, t)), d == e)
    return Implies(And(usable(s, d), in_range(s, d, t)), And(Not(s.used(t)), Not(s.published(e, t)), other))


def updated_fresh(s, d: Daemon, e: Daemon, t: Number):
    "So a range that stands in the table without a lock, while its high may be taken."
    here = And(may_be_taken(s, d), in_table(s, s.session(d)), in_range(s, d, t))
    return Implies(here, And(Not(s.used(t)), Not(s.published(e, t)), Not(And(usable(s, e), in_range(s, e, t)))))


def lock(s, x: Session):
    "The session that holds the lock has an open transaction, and max_id is what it read."
    held = And(s.open(x), Not(lockless(x)), s.begun(x), s.row(), s.as_read(x) == s.max_id(), Implies(s.updated(x), s.hi_of(x) > s.as_read(x)))
    by_operator = And(s.locked(), s.by_operator())
    create = And(by_operator, Not(s.row()), s.table_lost(), Not(s.deleting()), s.create_at() >= 0)
    return And(Implies(holds(s, x), held), Implies(And(s.open(x), Not(lockless(x))), holds(s, x)),
               Implies(by_operator, Or(s.row(), s.creating())), Implies(s.creating(), create), Implies(s.commit_sent(x), s.updated(x)),
               Implies(Or(s.open(x), s.committed(x), s.commit_sent(x)), s.begun(x)), Not(And(s.open(x), s.committed(x))),
               Implies(Not(s.table_lost()), s.row()), Implies(And(s.open(x), of_unguarded(x)), Or(Not(s.table_lost()), lockless(x))),
               Implies(s.deleting(), And(by_operator, s.covered())), s.max_id() >= 0)


def updated_at_once(s, d: Daemon):
    "An UPDATE without a lock lies below max_id, or, where the row is gone or a delete has written high, below high."
    hi = s.hi_of(s.session(d))
    return Implies(at_once(s, d), And(Implies(s.row(), hi <= s.max_id()), Implies(Or(Not(s.row()), s.deleting()), hi <= s.high())))


def commit_covers(s, x: Session, d: Daemon, t: Number):
    "A guarded COMMIT under the lock leaves max_id above all, also where the table had lost commits."
    return Implies(And(holds(s, x), Not(of_unguarded(x)), s.table_lost(), s.commit_sent(x)),
                   And(Implies(gone(s, d, t), t < s.hi_of(x)), Implies(usable(s, d), s.hi(d) <= s.hi_of(x))))


def high_covers(s, c: Daemon, d: Daemon, t: Number):
    "So before it is sent."
    return Implies(And(acknowledged(s, c), holds(s, s.session(c)), s.table_lost()),
                   And(Implies(gone(s, d, t), t < s.hi(c)), Implies(usable(s, d), s.hi(d) <= s.hi(c))))


def fetches(s, d: Daemon):
    "A fetch has a session of its own, as far as that has come."
    x = s.session(d)
    updated = And(s.updated(x), s.hi_of(x) == s.hi(d), Implies(holds(s, x), s.lo(d) >= s.as_read(x)))
    open_ = And(Not(s.committed(x)), Not(s.commit_sent(x)))
    return Implies(s.phase(d) != IDLE, And(
        owner(x) == d, s.begun(x), s.unguarded(d) == of_unguarded(x),
        Implies(phase_is(s, d, UPDATED, HIGH_SENT, HIGH_TAKEN, COMMIT_SENT, COMMITTED, MARKED), updated),
        Implies(phase_is(s, d, COMMITTED, MARKED), s.committed(x)), Implies(phase_is(s, d, LOCKED, UPDATED, HIGH_SENT, HIGH_TAKEN), open_),
        Implies(And(s.unguarded(d), s.phase(d) != LOCKED), phase_is(s, d, UPDATED, COMMIT_SENT, COMMITTED, MARKED)),
        Implies(phase_is(s, d, HIGH_SENT, HIGH_TAKEN), Not(s.unguarded(d)))))


def one_session(s, d: Daemon, e: Daemon):
    "A session is one daemon's."
    return Implies(And(s.phase(d) != IDLE, s.phase(e) != IDLE, s.session(d) == s.session(e)), d == e)


def loss_numbers(s, d: Daemon, m: Write):
    "The number of a loss that is noted is new: no daemon has read it before."
    ever = s.losses_ever()
    pending = Or(And(s.raising(d), m == s.raise_asked(d)), And(acknowledged(s, d), m == s.asked(d)))
    sent = And(losses_read(m) <= ever, losses_then(m) <= s.data_lost(),
               Implies(And(s.noted(), losses_read(m) == s.losses()), losses_then(m) == s.data_lost()),
               Implies(And(conn_of(m) == s.conn(), root_of(m) == s.root()), losses_then(m) == s.data_lost()),
               Implies(And(s.accepted(m), losses_then(m) == s.data_lost(), pending), to(m) <= s.high()))
    return And(s.losses() <= ever, s.k_losses(d) <= ever, s.f_losses(d) <= ever, s.raised_for(d) <= ever, Implies(s.sent(m), sent))


def raise_pending(s, d: Daemon, t: Number):
    "A raise for the noted loss covers what its daemon had published before."
    m = s.raise_asked(d)
    now = And(s.raising(d), s.noted(), losses_read(m) == s.losses())
    older = And(acknowledged(s, d), losses_then(s.asked(d)) < s.data_lost(), s.noted())
    return And(Implies(s.raising(d), And(s.sent(m), sender(m) == d, Not(of_fetch(m)))),
               Implies(And(now, s.published(d, t)), Or(t < to(m), t < s.high(), s.unraised(d))),
               Implies(older, And(s.raised_for(d) != s.losses(), Implies(s.raising(d), losses_read(m) != s.losses()))))


def create_above(s, d: Daemon, t: Number):
    "A row that is being made begins above all."
    return Implies(s.creating(), And(Implies(gone(s, d, t), t < s.create_at()), Implies(usable(s, d), s.hi(d) <= s.create_at()),
                                     Implies(at_once(s, d), s.hi_of(s.session(d)) <= s.create_at())))


TABLE = BOTH + [gone_in_table, gone_in_high, usable_in_table, usable_in_high, usable_fresh, updated_fresh, lock, updated_at_once,
                commit_covers, high_covers, fetches, one_session, create_above]
RAISED = TABLE + [gone_raised, usable_raised, loss_numbers, raise_pending]


def initial(s):
    d, x, m, t = Const("d", Daemon), Const("x", Session), Const("m", Write), Const("t", Number)
    return [ForAll([d], And(s.phase(d) == IDLE, Not(s.knows(d)), s.k_conn(d) == -1, s.mark(d) == 0, Not(s.unraised(d)), s.raised_for(d) == 0,
                            Not(s.raising(d)), s.k_losses(d) == 0, s.f_losses(d) == 0)),
            ForAll([d, t], And(Not(s.memory(d, t)), Not(s.published(d, t)))), ForAll([t], And(Not(s.used(t)), Not(s.outside(t)))),
            ForAll([x], And(Not(s.begun(x)), Not(s.open(x)), Not(s.committed(x)), Not(s.commit_sent(x)))),
            ForAll([m], And(Not(s.sent(m)), Not(s.accepted(m)))), Not(s.used_twice()), s.row(), s.max_id() >= 0, Not(s.locked()),
            Not(s.by_operator()), Not(s.deleting()), Not(s.creating()), s.high() == 0, s.version() == -1, s.root() == 0, s.conn() == 0,
            s.losses() == 0, s.losses_ever() == 0, s.data_lost() == 0, Not(s.table_lost()), s.covered(), Not(s.outsider_since()),
            Not(s.outsider_ever()), s.noted()]


def stage(name, one_table_only, invariants, transitions, out=()):
    def enter():
        ONE_TABLE[0] = one_table_only
        DAEMONS.clear()
    return Stage(name, enter, PARTS, initial, invariants, transitions, out=out)


STAGES = {"any table": stage("segment IDs, high alone: the table is anything at any time", False, HIGH_ALONE, ANY_TABLE),
          "one table": stage("segment IDs, one table: fetches without ZooKeeper, outsiders, losses of both", True, RAISED, WITH_LOSSES),
          "no raise": stage("segment IDs, the same where no raise counts, only a guarded fetch", True, TABLE, WITH_LOSSES, ("raises-count",))}
