"""worker.Decide beside the proof: its table; its conditions, which imply those of the transition that each cell is; and decide.txt, what
they say over a grid of records and entries, with which worker/grid_test.go compares the code.

The conditions are those of worker/decide.go, line by line. They are written once, for terms of z3 and for plain numbers.
"""

from types import SimpleNamespace as Of

from workers_proof import *

ROWS = {
    #                 lost       own        unknown     after
    "running":      ("PutBack", "Report", "Fence", "Fence"),
    "stopping":     ("RunOut", "Release", "Fence", "Fence"),
    "starting":     ("PutBack", "Resume", "SetAside", "GiveUp"),
    "runningEnded": ("RunOut", "RunOut", "Fence", "Fence"),
    "ended":        ("Forget", "Enroll", "SetAside", "GiveUp"),
    "released":     ("Forget", "Release", "SetAside", "Enroll"),
    "none":         ("Enroll", "Enroll", "SetAside", "Enroll"),
}
COLUMNS = ("lost", "own", "unknown", "after")
# The transition that an action is. Those of the second line give up a right, or do nothing.
TRANSITIONS = dict(PutBack=put_back, Report=send_report, Resume=send_resumption, Enroll=send_claim, Release=send_release,
                   Forget=forget, GiveUp=forget, SetAside=set_aside, Fence=crash, RunOut=no_answer)
# The cells whose write rests on what Decide knows of the entry, each with what the life is in.
WRITES = [("running", "own", RUN), ("running", "lost", RUN), ("stopping", "own", REL), ("starting", "lost", START),
          ("starting", "own", START), ("released", "own", START), ("none", "own", START)]

DROPPED = set()  # conditions that are left out, to see that they are needed


def is_term(*xs):
    return any(hasattr(x, "sexpr") for x in xs)


def both(*xs):
    return And(*xs) if is_term(*xs) else all(xs)


def either(*xs):
    return Or(*xs) if is_term(*xs) else any(xs)


def no(x):
    return Not(x) if is_term(x) else not x


def pick(c, a, b):
    return If(c, a, b) if is_term(c) else a if c else b


def condition(name, term, without):
    return without if name in DROPPED else term


def before(a, b):
    """a is before b, by the first number in which they differ."""
    less, same = a[0] < b[0], a[0] == b[0]
    return less if len(a) == 1 else either(less, both(same, before(a[1:], b[1:])))


def outlives(r, e):
    """Our own entry e is before what was acknowledged (Record.outlives)."""
    released = either(e.floor < r.floor, both(e.floor == r.floor, no(e.released)))
    order = before((e.floor, pick(e.claim, 0, e.limit), e.life), (r.floor, r.acked, r.life))
    ours = pick(both(e.released, e.floor == r.floor), False, order)
    return condition("an own entry before what was acknowledged is lost", pick(r.released, released, ours), False)


def precedes(r, e):
    """Another's entry e is before ours; a claim is judged by what it was made over (Record.precedes)."""
    def is_before(x):
        return pick(x.limit > x.floor, before((x.floor, x.limit), (r.floor, r.limit)), x.floor < r.limit)

    was = either(no(e.over.there), pick(e.over.own, outlives(r, e.over), is_before(e.over)))
    idle = both(e.floor < r.limit, condition("a claim is judged by what it was made over", was, True))
    return condition("another's later entry is not lost", pick(either(e.claim, e.limit <= e.floor), idle, is_before(e)), True)


def row_of(r, now):
    """Which row, in this order; the rest is "ended"."""
    reaches = condition("a piece that ends is not prolonged", now.clock + now.margin < r.acked, True)
    return {"none": either(r.none, r.claim), "runningEnded": both(now.running, no(reaches)), "stopping": both(now.running, r.releasing),
            "running": now.running, "released": no(r.active), "starting": reaches}


def column_of(r, is_row, e, now):
    """Which column, in this order; the rest is "after"."""
    none = is_row("none")
    later = condition("a running life has no later piece of its own", both(no(none), now.running, e.floor > r.floor), False)
    lost = both(no(none), either(no(e.there), e.damaged, both(e.own, outlives(r, e)), both(no(e.own), precedes(r, e))))
    stands = condition("a released entry is not resumed", either(e.active, both(e.claim, no(is_row("released"))), is_row("ended"), none), True)
    return {"lost": lost, "unknown": both(e.own, either(no(e.knows), later)), "own": both(e.own, stands)}


def first_of(conditions, name):
    """name is the first whose condition holds."""
    earlier = []
    for n, c in conditions.items():
        if n == name:
            return both(c, *[no(x) for x in earlier])
        earlier.append(c)
    return both(*[no(x) for x in earlier])


# The proof: in each cell Decide's conditions, and the write that follows, imply what the transition asks for.

number = Function("number", Life, Number)


def terms(s, d, c, phase):
    """Record, entry and moment as terms: the file's record while a life starts, the process's while it runs or stops."""
    f = s.f_state(d)
    r = Of(none=f == F_NONE, claim=f == F_CLAIM, active=f == F_ACTIVE, releasing=f == F_RELEASING, released=f == F_RELEASED,
           floor=s.f_floor(d), limit=s.f_limit(d), acked=s.f_acked(d), life=number(s.f_acked_life(d)), worker=s.f_worker(d))
    if phase is RUN:
        r.__dict__.update(none=False, claim=False, active=True, releasing=False, released=False, worker=s.p_worker(d),
                          floor=s.p_floor(d), limit=s.p_limit(d), acked=s.p_limit(d))
    if phase is REL:
        r.__dict__.update(worker=s.p_worker(d), floor=s.p_floor(d))
    stands = s.entry(r.worker)

    def entry(m):
        return Of(there=state(m) != ABSENT, own=And(state(m) != ABSENT, instance(m) == s.f_instance(d)), claim=state(m) == CLAIM,
                  active=state(m) == ACTIVE, released=state(m) == RELEASED, damaged=state(m) == DAMAGED, floor=floor(m), limit=limit(m),
                  life=number(life(m)))

    e = entry(stands)
    e.knows = Or(ours(s, d, stands), And(BoolVal(phase is not START), life(stands) == s.p_life(d)))
    e.over = entry(over(stands))
    return r, e, Of(clock=c, margin=2 * THRESHOLD, running=BoolVal(phase is not START))


def implied(cell):
    """What of a cell is not implied."""
    row, column, phase = WRITES[cell]
    STAGES["lost"].begin()
    s, d, m, c, lease = state_of(PARTS), Const("d", Directory), Const("m", Write), Const("c", Number), Int("lease")
    r, e, now = terms(s, d, c, phase)
    action = ROWS[row][COLUMNS.index(column)]
    f = send_late_release if (row, action) == ("released", "Release") else TRANSITIONS[action]
    rows = row_of(r, now)
    columns = column_of(r, lambda name: first_of(rows, name), e, now)
    asked = [s.phase(d) == phase, s.home(d), first_of(rows, row), first_of(columns, column), clock(s, c), r.acked > 0,
             Implies(phase is REL, s.f_state(d) == F_RELEASING)]
    stands = s.entry(r.worker)
    was = greater(r.limit, If(e.own, e.limit, r.limit))  # what holder.write and Registry.Write make of it
    makes, lo, more = {
        "PutBack": (ACTIVE, r.floor, [limit(m) == greater(was, greater(c, r.floor) + lease)]),
        "Report": (ACTIVE, r.floor, [limit(m) == greater(was, greater(c, r.floor) + lease)]),
        "Resume": (ACTIVE, greater(r.floor, e.floor), [limit(m) == greater(was, greater(c, greater(r.floor, e.floor)) + lease)]),
        "Release": (RELEASED, e.floor if phase is START else r.floor, [limit(m) == (r.limit if phase is START else s.p_next(d))]),
        "Enroll": (CLAIM, greater(greater(r.floor, e.floor), s.root_floor()), [limit(m) == floor(m), floor(m) <= c, s.root_there(), over(m) == was_over(stands),
                                                                              r.claim, Or(e.active, e.claim)]),
    }[action]
    if action == "PutBack":
        asked.append(Not(e.damaged))  # the entry's limit is not read then
    written = [new(s, d, m, makes), worker(m) == r.worker, Not(promotes(m)), floor(m) == lo, 0 <= lease, lease <= LONGEST_LEASE, *more]
    conditions, _ = f(s, d, m) if makes is RELEASED else f(s, d, m, c)
    facts = [over_is_no_claim(s, stands), writes(s, stands), entries(s, r.worker), process(s, d)]
    answer, _ = ask(*[always(i, s) for i in STAGES["lost"].invariants], *facts, *asked, *written, Not(And(*conditions)))
    return [] if answer == unsat else [f"Decide, {row} / {column}: its conditions don't imply those of {f.__name__}: {answer}"]


# Each condition left out, with a cell that then does what no transition does.
NEEDED = {"a running life has no later piece of its own": 2, "an own entry before what was acknowledged is lost": 4,
          "a released entry is not resumed": 4, "a claim is judged by what it was made over": 3, "a piece that ends is not prolonged": 3,
          "another's later entry is not lost": 3}


def needed(name):
    """A condition that could be left out."""
    DROPPED.add(name)
    try:
        return [] if implied(NEEDED[name]) else [f"Decide: its cells need no condition that {name}"]
    finally:
        DROPPED.clear()


# The grid, in plain numbers.

FLOORS, LENGTHS = (19, 20, 21), (0, 3, 10, 11)
RECORDS = {  # state, running, the clock; the margin is 2
    "none": ("none", False, 25), "claiming": ("claiming", False, 25), "active": ("active", False, 25), "active+ended": ("active", False, 28),
    "active+running": ("active", True, 25), "active+running+ended": ("active", True, 28), "releasing": ("releasing", False, 25),
    "releasing+running": ("releasing", True, 25), "releasing+running+ended": ("releasing", True, 28), "released": ("released", False, 25)}
LIMITS = {"none": (0, 0), "claiming": (20, 20), "active": (30, 30), "releasing": (23, 30), "released": (23, 23)}  # limit, acknowledged


def record(name):
    what, running, at = RECORDS[name]
    hi, acked = LIMITS[what]
    return Of(none=what == "none", claim=what == "claiming", active=what == "active", releasing=what == "releasing",
              released=what == "released", floor=20, limit=hi, acked=acked, life=4), Of(clock=at, margin=2, running=running)


def an_entry(whose, what, lo, hi, number_, knows, made_over=None):
    return Of(there=what != "absent", own=whose == "ours" and what != "absent", claim=what == "claiming", active=what == "active",
              released=what == "released", damaged=what == "damaged", floor=lo, limit=hi, life=number_, knows=knows,
              over=made_over or Of(there=False, own=False, claim=False, active=False, released=False, floor=0, limit=0, life=0))


def cell(name, e):
    r, now = record(name)
    rows = row_of(r, now)
    row = next((n for n, c in rows.items() if c), "ended")
    columns = column_of(r, lambda n: n == row, e, now)
    return row, next((n for n, c in columns.items() if c), "after")


def grid():
    """decide.txt."""
    said = [__doc__.splitlines()[0].split(":")[0] + ": written by prove.py, compared by worker/grid_test.go.", "",
            "What to do, by what the record and the entry say:", ""]
    said += [f"{'':14}" + "".join(f"{c:10}" for c in COLUMNS).rstrip()]
    said += [f"{row:14}" + "".join(f"{a:10}" for a in actions).rstrip() for row, actions in ROWS.items()]
    said += ["", "The columns (l, o, u, a) over records of life 4 (the file names 5, too) with floor 20, and entries; in each group floors", "of "
             + ", ".join(map(str, FLOORS)) + ", and for each limits " + ", ".join(f"+{n}" for n in LENGTHS) + "; of \"over\", those of what a claim from there on was made over.",
             "Limits are 30; 23 of releasing (30 acknowledged) and released. The clock is 25, of ended 28, and the margin 2.", ""]
    rows = [cell(name, an_entry("theirs", "absent", 0, 0, 0, False))[0] for name in RECORDS]
    said += ["record: " + " ".join(RECORDS), "row: " + " ".join(rows), ""]

    def line(words, make):
        said.append(f"{words:42}" + " ".join("".join(cell(n, make(lo, lo + k))[1][0] for lo in FLOORS for k in LENGTHS) for n in RECORDS))

    for what in ("absent", "damaged"):
        line(what, lambda lo, hi, what=what: an_entry("theirs", what, lo, hi, 0, False))
    for what in ("claiming", "active", "released"):
        for owner, n in (("acked", 4), ("current", 5), ("other", 3), ("other", 6)):
            line(f"ours {what} {owner} {n}", lambda lo, hi, what=what, n=n, owner=owner: an_entry("ours", what, lo, hi, n, owner != "other"))
        line(f"theirs {what}", lambda lo, hi, what=what: an_entry("theirs", what, lo, hi, 1, False))
    for at in (19, 21, 31):
        for whose, what, n in (("ours", "active", 3), ("ours", "active", 4), ("ours", "released", 3), ("ours", "released", 4),
                               ("theirs", "active", 1), ("theirs", "released", 1)):
            line(f"theirs claiming {at} over {whose} {what} {n}", lambda lo, hi, at=at, whose=whose, what=what, n=n: an_entry(
                "theirs", "claiming", at, at, 1, False, an_entry(whose, what, lo, hi, n, False)))
    return "\n".join(said) + "\n"


def not_in_the_model():
    """Cells whose action is no transition of the model."""
    return [f"Decide: {a} is no transition" for actions in ROWS.values() for a in actions if TRANSITIONS.get(a) not in LOST]
