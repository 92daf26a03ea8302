"""Worker IDs: who holds one, how far it has issued, and slices lent out of it (DESIGN's sections 3 and 5b), as transitions.

Any number of directories, instances, lives, worker IDs, writes and times. A write is a message: ZooKeeper takes it at once, later or
never, and its sender gets the answer, or not, or is dead by then. So a lost answer, a late write, a crash between two steps and
others between a look and a write need no transitions of their own. A look is part of the step that sends, since a write is taken
only where what was read still stands.
"""

from kit import *

Directory, Instance, Life, Worker, Write = (DeclareSort(n) for n in ("Directory", "Instance", "Life", "Worker", "Write"))
Entry, (ABSENT, CLAIM, ACTIVE, RELEASED, DAMAGED) = EnumSort("Entry", ("absent", "claiming", "active", "released", "damaged"))
Record, (F_NONE, F_CLAIM, F_ACTIVE, F_RELEASING, F_RELEASED) = EnumSort("Record", ("f_none", "f_claiming", "f_active", "f_releasing", "f_released"))
Phase, (OFF, START, RUN, REL) = EnumSort("Phase", ("off", "starting", "running", "releasing"))

LOSES = [False]  # ZooKeeper loses data: the second stage


def with_losses(term):
    """What the second stage alone needs."""
    return term if LOSES[0] else BoolVal(True)


THRESHOLD, LONGEST_LEASE, LONGEST_LEND = Int("threshold"), Int("longest_lease"), Int("longest_lend")

# A write never changes: who sent it, what it makes of the entry, and on what condition: the write that was read there, the root's
# version, and the connection.
sender, instance, life, worker = (Function(n, Write, sort) for n, sort in (
    ("sender", Directory), ("instance", Instance), ("life", Life), ("worker", Worker)))
state, floor, limit = (Function(n, Write, sort) for n, sort in (("state", Entry), ("floor", Number), ("limit", Number)))
read, root_of, conn_of = (Function(n, Write, sort) for n, sort in (("read", Write), ("root_of", Number), ("conn_of", Number)))
promotes = Function("promotes", Write, Flag)  # it makes a settled claim active
again = Function("again", Write, Flag)  # a claim of a claiming record over its own active entry
over = Function("over", Write, Write)  # what a claim says that it was made over
instance_of = Function("instance_of", Life, Instance)  # the instance under which a life issues

BY_TIME, BY_LIFE = (Instance, Worker, Number, Flag), (Life, Worker, Number, Flag)
PARTS = dict(
    # ZooKeeper: the write that stands at a worker ID's path; writes that were sent, and taken; the root; connections, which all end
    # where data is lost.
    entry=(Worker, Write), sent=(Write, Flag), accepted=(Write, Flag),
    root_there=(Flag,), root_version=(Number,), root_floor=(Number,), conn=(Number,),
    # The time. After a loss of data: no piece of before goes beyond horizon; it was not noted yet.
    now=(Number,), horizon=(Number,), unnoted=(Flag,),
    # A directory's file; home: it was written in this directory, by the life that the lock names.
    home=(Directory, Flag), f_instance=(Directory, Instance), f_state=(Directory, Record), f_worker=(Directory, Worker),
    f_floor=(Directory, Number), f_limit=(Directory, Number), f_acked=(Directory, Number), f_ceiling=(Directory, Number),
    f_acked_life=(Directory, Life), f_current_life=(Directory, Life),
    # Its process: the piece, the ceiling that its generator has, where it began and goes on; whether its piece is in the file.
    phase=(Directory, Phase), p_life=(Directory, Life), p_worker=(Directory, Worker), p_floor=(Directory, Number),
    p_limit=(Directory, Number), p_ceiling=(Directory, Number), p_start=(Directory, Number), p_next=(Directory, Number),
    p_filed=(Directory, Flag),
    # The write that it waits for, and what its claim was made under.
    asked=(Directory, Write), waits=(Directory, Flag), claim_root=(Directory, Number), claim_conn=(Directory, Number),
    # Slices, of any one slot: where the next may begin; the last clock at which this life lent one; two overlap. Clocks at which an
    # instance, and a life, lent one; the times of a life's slices, and the clock at which each was lent.
    lend_from=(Directory, Number), lent_at=(Directory, Number), lent_twice=(Flag,), lent=BY_TIME, lends=BY_LIFE, slice=BY_LIFE,
    slice_at=(Life, Worker, Number, Number),
    # What is in no program: ZooKeeper gave it; --force took it, and its holder does not know; an instance issued it; issued it, or
    # lent at it; a life issued it; lives and instances that there were.
    owns=BY_TIME, forced=BY_TIME, made=BY_TIME, used=BY_TIME, issued=BY_LIFE,
    seen_life=(Life, Flag), seen_instance=(Instance, Flag))
FILE = ("f_instance", "f_state", "f_worker", "f_floor", "f_limit", "f_acked", "f_ceiling", "f_acked_life", "f_current_life")


def ours(s, d, e):
    """e is of a life that d's record knows."""
    return Or(life(e) == s.f_acked_life(d), life(e) == s.f_current_life(d))


def idle_promotion(s, d, m):
    """What stands is our own promotion, whose answer our claiming record does not have: nothing was issued under it."""
    e = s.entry(worker(m))
    return And(rule("claim-again/by-a-claim", s.f_state(d) == F_CLAIM), s.f_worker(d) == worker(m), instance(e) == s.f_instance(d),
               state(e) == ACTIVE, ours(s, d, e), floor(m) >= s.f_floor(d))


def new(s, d, m, makes):
    """d makes a write of its life, on the condition of what stands."""
    return And(Not(s.sent(m)), Not(s.waits(d)), sender(m) == d, instance(m) == s.f_instance(d), life(m) == s.p_life(d),
               state(m) == makes, floor(m) <= limit(m) if makes is CLAIM else floor(m) < limit(m), read(m) == s.entry(worker(m)),
               conn_of(m) == s.conn(), root_of(m) == s.root_version(), again(m) == And(state(m) == CLAIM, idle_promotion(s, d, m)))


def sends(s, d, m):
    return s.at(m, sent=True).at(d, asked=m, waits=True)


def names_life(s, d, m):
    """The file names the life before it writes."""
    e = s.entry(worker(m))
    known = And(instance(e) == s.f_instance(d), life(e) == s.f_current_life(d))
    return s.at(d, f_current_life=s.p_life(d), f_acked_life=If(known, s.f_current_life(d), s.f_acked_life(d)))


def was_over(e):
    """The last entry at the path that was no claim."""
    return If(state(e) == CLAIM, over(e), e)


def says_over(m, e):
    if "loss-before-copy/over-taken-along" in OUT:
        return If(state(e) == CLAIM, state(over(m)) == ABSENT, over(m) == e)
    if "loss-before-copy/over-an-active-one" in OUT:
        return If(Or(state(e) == CLAIM, state(e) == RELEASED), over(m) == was_over(e), state(over(m)) == ABSENT)
    RULES.update(("loss-before-copy/over-taken-along", "loss-before-copy/over-an-active-one"))
    return over(m) == was_over(e)


def clock(s, c):
    """A reading of a clock that the guards judged (A1)."""
    return with_losses(rule("judged-clock", And(s.now() - THRESHOLD <= c, c <= s.now() + THRESHOLD)))


def reaches(c, acked):
    return with_losses(rule("ending-piece", c + 2 * THRESHOLD < acked))


def leased(m, c, was):
    e = read(m)
    stood = greater(was, If(instance(e) == instance(m), limit(e), floor(m)))
    return with_losses(rule("loss-raises-floor/longest-lease", limit(m) <= greater(greater(c, floor(m)) + LONGEST_LEASE, stood)))


def recognised(name, otherwise):
    """A file that is in another place, or of another time, is set aside."""
    RULES.add(name)
    return otherwise if name in OUT else BoolVal(False)


# Directories.

def begin(s, d: Directory, l: Life):
    return [s.phase(d) == OFF, Not(s.seen_life(l))], s.at(d, phase=START, p_life=l, claim_conn=-1, waits=False).at(l, seen_life=True)


def set_aside(s, d: Directory, i: Instance, c: Number):
    """The directory is another instance's from now on; or it was lost."""
    return [Or(s.phase(d) == OFF, s.phase(d) == START), Not(s.seen_instance(i))], \
        s.at(d, home=True, f_instance=i, f_state=F_NONE, f_ceiling=c, waits=False).at(i, seen_instance=True)


def copy(s, d: Directory, e: Directory):
    """d's file is a copy of another directory's; a claim's, too."""
    home = If(s.f_state(e) == F_CLAIM, recognised("set-aside-always", s.home(e)), recognised("one-directory", s.home(e)))
    return [s.phase(d) == OFF, s.f_instance(d) != s.f_instance(e)], s.at(d, home=home, **{n: getattr(s, n)(e) for n in FILE})


def restore(s, d: Directory, e: Directory):
    """d's file is an earlier one of its own, which was kept as e's."""
    return [s.phase(d) == OFF, s.f_instance(d) == s.f_instance(e)], \
        s.at(d, home=recognised("restored-record", s.home(d)), **{n: getattr(s, n)(e) for n in FILE})


def damage_slot(s, d: Directory, c: Number):
    """The newer slot of d's file is damaged: the older one counts, a ceiling lead later."""
    return [s.phase(d) == OFF, rule("whole-slots", c >= s.f_ceiling(d))], s.at(d, f_ceiling=c)


def crash(s, d: Directory):
    """Also a fence."""
    return [], s.at(d, phase=OFF, waits=False)


def forget(s, d: Directory):
    """Its worker ID is another's, or lost, or was given up."""
    return [s.phase(d) == START], s.at(d, f_state=F_NONE)


def no_answer(s, d: Directory):
    return [], s.at(d, waits=False)


# A start.

def send_claim(s, d: Directory, m: Write, c: Number):
    e = s.entry(worker(m))
    return [s.phase(d) == START, s.home(d), new(s, d, m, CLAIM),
            rule("floor-at-the-limit", Or(state(e) == DAMAGED, And(floor(m) >= floor(e), Or(floor(m) >= limit(e), again(m))))),
            limit(m) == floor(m), Not(promotes(m)), rule("damaged-put-back", state(e) != DAMAGED), says_over(m, e),
            clock(s, c), with_losses(And(s.root_there(), rule("root-floor", floor(m) >= s.root_floor()),
                                         rule("judged-clock/floor", floor(m) <= c)))], \
        sends(names_life(s, d, m), d, m)


def answer_claim(s, d: Directory):
    m = s.asked(d)
    return [s.phase(d) == START, s.waits(d), s.accepted(m), state(m) == CLAIM], \
        s.at(d, f_state=F_CLAIM, f_worker=worker(m), f_floor=floor(m), f_limit=floor(m), f_acked=floor(m),
             f_ceiling=greater(s.f_ceiling(d), floor(m)), f_acked_life=s.p_life(d), f_current_life=s.p_life(d),
             claim_root=root_of(m), claim_conn=conn_of(m), waits=False)


def send_promotion(s, d: Directory, m: Write, c: Number):
    """A claim that settled is made active, as it was written, under the same root."""
    e = s.entry(s.f_worker(d))
    return [s.phase(d) == START, s.home(d), new(s, d, m, ACTIVE), s.f_state(d) == F_CLAIM, worker(m) == s.f_worker(d),
            state(e) == CLAIM, instance(e) == s.f_instance(d), floor(e) == s.f_floor(d), floor(m) == s.f_floor(d), promotes(m),
            clock(s, c), leased(m, c, floor(m)),
            with_losses(rule("root-checked/while-it-settles", And(s.claim_root(d) == s.root_version(), s.claim_conn(d) == s.conn())))], \
        sends(names_life(s, d, m), d, m)


def send_resumption(s, d: Directory, m: Write, c: Number):
    e = s.entry(s.f_worker(d))
    return [s.phase(d) == START, s.home(d), new(s, d, m, ACTIVE), worker(m) == s.f_worker(d), Not(promotes(m)),
            instance(e) == s.f_instance(d), clock(s, c), leased(m, c, s.f_limit(d)),
            rule("released-never-resumes", s.f_state(d) == F_ACTIVE), state(e) != RELEASED, state(e) != DAMAGED,
            floor(e) >= s.f_floor(d), reaches(c, s.f_acked(d)), floor(m) == greater(s.f_floor(d), floor(e)),
            rule("floor-at-the-limit/rises", And(limit(m) >= s.f_limit(d), limit(m) >= limit(e)))], \
        sends(names_life(s, d, m), d, m)


def runs(s, d, w, lo, acked, n):
    """d issues from n on, and lends a longest lend later."""
    lends = n if "slices/cold" in OUT else n + LONGEST_LEND
    RULES.add("slices/cold")
    return s.at(d, phase=RUN, p_worker=w, p_floor=lo, p_limit=acked, p_ceiling=n, p_start=n, p_next=n, p_filed=False, waits=False,
                lend_from=lends, lent_at=n - 1)


def answer_active(s, d: Directory, n: Number):
    m = s.asked(d)
    return [s.phase(d) == START, s.waits(d), s.accepted(m), state(m) == ACTIVE, instance_of(s.p_life(d)) == s.f_instance(d),
            rule("start-above-ceiling", n >= s.f_ceiling(d)), n >= floor(m)], runs(s, d, worker(m), floor(m), limit(m), n)


def start_offline(s, d: Directory, n: Number):
    """Without ZooKeeper."""
    f = s.f_state(d)
    return [s.phase(d) == START, s.home(d), Not(s.waits(d)), instance_of(s.p_life(d)) == s.f_instance(d),
            Or(f == F_ACTIVE, And(Or(f == F_RELEASING, f == F_RELEASED), rule("confirmed-record", BoolVal(False)))),
            rule("start-above-ceiling", n >= s.f_ceiling(d)), n >= s.f_floor(d)], \
        runs(s, d, s.f_worker(d), s.f_floor(d), s.f_acked(d), n)


# A life that issues.

def filed(s, d, makes, to, c):
    return s.at(d, f_state=makes, f_worker=s.p_worker(d), f_floor=s.p_floor(d), f_limit=to, f_acked=s.p_limit(d), f_ceiling=c)


def save(s, d: Directory, c: Number):
    return [s.phase(d) == RUN, c >= s.f_ceiling(d)], filed(s, d, F_ACTIVE, s.p_limit(d), c).at(d, p_filed=True)


def publish(s, d: Directory, c: Number):
    """The generator may issue below c."""
    return [s.phase(d) == RUN, s.p_filed(d), rule("ceiling-before-use", c <= s.f_ceiling(d)),
            rule("below-the-limit", c <= s.p_limit(d)), rule("below-the-limit/filed", c <= s.f_acked(d))], s.at(d, p_ceiling=c)


def issue(s, d: Directory, t: Number):
    i, w = s.f_instance(d), s.p_worker(d)
    return [rule("fence-is-final", s.phase(d) == RUN), rule("floor-to-ceiling", t >= s.p_next(d)), t < s.p_ceiling(d),
            assume("A2", Not(s.forced(i, w, t)))], \
        s.at((s.p_life(d), w, t), issued=True).at((i, w, t), made=True, used=True).at(d, p_next=t)


def lend(s, d: Directory, t0: Number, t1: Number, c: Number, k: Life, u: Number):
    """A slice [t0, t1) of the slot. To lend at a clock is, for every other rule, to issue at it. k and u: any slice's."""
    i, l, w, x = s.f_instance(d), s.p_life(d), s.p_worker(d), Const("lent_x", Number)

    def own(j, v, t):
        return And(j == l, v == w, within(t0, t, t1))

    return [s.phase(d) == RUN, s.p_filed(d), rule("slices/apart", t0 >= s.lend_from(d)), t0 >= s.p_start(d), c <= t0, t0 < t1,
            rule("slices/ceiling", c < s.f_ceiling(d)), rule("slices/longest", t1 <= c + LONGEST_LEND),
            rule("slices/limit", t1 <= s.p_limit(d)), rule("slices/limit-filed", t1 <= s.f_acked(d)), clock(s, c),
            assume("A2", ForAll([x], Implies(within(s.p_floor(d), x, t1), Not(s.forced(i, w, x)))))], \
        s.at((i, w, c), lent=True, used=True).at((l, w, c), lends=True).at(d, lend_from=t1, lent_at=greater(c, s.lent_at(d))).set(
            lent_twice=Or(s.lent_twice(), And(s.slice(k, w, u), within(t0, u, t1))),
            slice=lambda j, v, t: Or(s.slice(j, v, t), own(j, v, t)), slice_at=lambda j, v, t: If(own(j, v, t), c, s.slice_at(j, v, t)))


def send_report(s, d: Directory, m: Write, c: Number):
    e = s.entry(s.p_worker(d))
    return [s.phase(d) == RUN, new(s, d, m, ACTIVE), worker(m) == s.p_worker(d), Not(promotes(m)), floor(m) == s.p_floor(d),
            instance(e) == s.f_instance(d), state(e) == ACTIVE, floor(e) == s.p_floor(d),
            rule("floor-at-the-limit/rises", And(limit(m) >= s.p_limit(d), limit(m) >= limit(e))), clock(s, c),
            reaches(c, s.p_limit(d)), leased(m, c, s.p_limit(d))], sends(s, d, m)


def answer_report(s, d: Directory):
    m = s.asked(d)
    return [s.phase(d) == RUN, s.waits(d), rule("below-the-limit/acknowledged", s.accepted(m)), state(m) == ACTIVE], \
        s.at(d, p_limit=limit(m), waits=False)


def above_all_issued(s, d, c):
    w, t = Const("last_w", Worker), Const("last_t", Number)
    return And(c >= s.p_start(d), rule("slices/stop", c > s.lent_at(d)), ForAll([w, t], Implies(s.issued(s.p_life(d), w, t), t < c)))


def stop(s, d: Directory, c: Number):
    return [s.phase(d) == RUN, above_all_issued(s, d, c)], filed(s, d, F_ACTIVE, s.p_limit(d), c).at(d, phase=OFF, waits=False)


def file_release(s, d: Directory, c: Number):
    to = greater(c, s.p_floor(d) + 1)
    to = If(to <= s.p_limit(d), to, s.p_limit(d))
    RULES.add("release-filed-first")
    after = s if "release-filed-first" in OUT else filed(s, d, F_RELEASING, to, c)
    return [s.phase(d) == RUN, Not(s.waits(d)), above_all_issued(s, d, c)], after.at(d, phase=REL, p_next=to)


def send_release(s, d: Directory, m: Write):
    e = s.entry(s.p_worker(d))
    return [s.phase(d) == REL, new(s, d, m, RELEASED), worker(m) == s.p_worker(d), Not(promotes(m)), instance(e) == s.f_instance(d),
            state(e) == ACTIVE, floor(e) == s.p_floor(d), floor(m) == s.p_floor(d), limit(m) == s.p_next(d)], sends(s, d, m)


def answer_release(s, d: Directory):
    return [s.phase(d) == REL, s.waits(d), s.accepted(s.asked(d))], s.at(d, phase=OFF, waits=False, f_state=F_RELEASED)


def released_in_file(s, d):
    return Or(s.f_state(d) == F_RELEASING, s.f_state(d) == F_RELEASED)


def send_late_release(s, d: Directory, m: Write):
    """A start whose file alone says that it was released."""
    e = s.entry(s.f_worker(d))
    return [s.phase(d) == START, s.home(d), new(s, d, m, RELEASED), released_in_file(s, d), worker(m) == s.f_worker(d),
            Not(promotes(m)), instance(e) == s.f_instance(d), state(e) == ACTIVE, ours(s, d, e), floor(m) == floor(e),
            rule("late-release", limit(m) == s.f_limit(d))], sends(s, d, m)


def answer_late_release(s, d: Directory):
    m = s.asked(d)
    return [s.phase(d) == START, released_in_file(s, d), s.waits(d), s.accepted(m), state(m) == RELEASED], \
        s.at(d, waits=False, f_state=F_RELEASED)


# ZooKeeper, and operators.

def takes(s, m):
    return s.at(worker(m), entry=m).at(m, accepted=True, sent=True)


def holds(s, d, w, t):
    """d may issue t: by its file, as a process, or once an answer that is under way comes."""
    m = s.asked(d)
    return Or(And(s.home(d), s.f_state(d) == F_ACTIVE, s.f_worker(d) == w, within(s.f_floor(d), t, s.f_acked(d))),
              And(s.phase(d) == RUN, s.p_worker(d) == w, within(s.p_floor(d), t, s.p_limit(d))),
              And(Or(s.phase(d) == START, s.phase(d) == RUN), s.waits(d), s.accepted(m), state(m) == ACTIVE, worker(m) == w,
                  within(floor(m), t, limit(m))))


def take(s, m: Write):
    d, i, w, t = Const("taken_d", Directory), Const("taken_i", Instance), Const("taken_w", Worker), Const("taken_t", Number)
    ends = Or(state(m) == RELEASED, again(m), And(state(m) == ACTIVE, state(read(m)) == DAMAGED))

    def owns(i, w, t):
        here = And(i == instance(m), w == worker(m))
        gives = And(here, state(m) == ACTIVE, within(floor(m), t, limit(m)))
        moves = And(with_losses(s.unnoted()), BoolVal(LOSES[0]), promotes(m), i != instance(m), w == worker(m), t >= floor(m))
        return And(Or(s.owns(i, w, t), gives), Not(And(here, ends, t >= limit(m), Not(s.used(i, w, t)))), Not(moves))

    def forced(i, w, t):
        return And(s.forced(i, w, t), Not(And(i == instance(m), w == worker(m), state(m) == ACTIVE, t >= floor(m))))

    others = ForAll([d, t], Implies(And(holds(s, d, worker(m), t), s.f_instance(d) != instance(m)), t < floor(m)))
    behind = ForAll([i, t], Implies(s.used(i, worker(m), t), t < floor(m)))
    settled = Implies(And(s.unnoted(), promotes(m)), And(rule("settles-first", others), rule("settles-first/long-enough", behind)))  # A3
    as_read = read(m) == s.entry(worker(m))
    return [s.sent(m), Not(s.accepted(m)), rule("one-path", Implies(state(m) == CLAIM, as_read)),
            rule("written-as-decided", Implies(state(m) != CLAIM, as_read)), rule("root-checked/connection", conn_of(m) == s.conn()),
            rule("root-checked", root_of(m) == s.root_version()), with_losses(settled)], takes(s, m).set(owns=owns, forced=forced)


def by_hand(s, m, w):
    """`leafd worker release`."""
    e = s.entry(w)
    return And(Not(s.sent(m)), worker(m) == w, instance(m) == instance(e), life(m) == life(e), state(e) != ABSENT,
               state(e) != DAMAGED, state(e) != RELEASED, Not(again(m)), state(m) == RELEASED, floor(m) == floor(e),
               floor(m) < limit(m), read(m) == e, Not(promotes(m)), conn_of(m) == s.conn(), root_of(m) == s.root_version())


def release_by_hand(s, m: Write, w: Worker):
    e = s.entry(w)
    return [by_hand(s, m, w), limit(m) == greater(limit(e), floor(e) + 1)], takes(s, m)


def release_by_force(s, m: Write, w: Worker, c: Number):
    """The new limit lies above all that its holder issued and lent at, and what lies beyond, that holder doesn't issue (A2)."""
    i, d, t = instance(m), Const("force_d", Directory), Const("force_t", Number)
    gone = ForAll([d], Not(And(s.f_instance(d) == i, s.home(d))))

    def kept(j, x, u):
        return Not(And(j == i, x == w, u >= limit(m)))

    return [by_hand(s, m, w), clock(s, c), with_losses(assume("A2f", gone)), with_losses(limit(m) <= s.now() + THRESHOLD + LONGEST_LEASE),
            assume("A2", ForAll([t], Implies(s.made(i, w, t), t < limit(m)))),
            assume("A2/lent", ForAll([t], Implies(s.lent(i, w, t), t < limit(m))))], \
        takes(s, m).set(owns=lambda j, x, u: And(s.owns(j, x, u), Or(kept(j, x, u), s.used(j, x, u))),
                        forced=lambda j, x, u: Or(s.forced(j, x, u), And(Not(kept(j, x, u)), s.owns(j, x, u))))


def time_passes(s, t: Number):
    return [t >= s.now()], s.set(now=t)


e_back = Function("e_back", Worker, Write)


def set_back(s, f: Number, there: Flag):
    """ZooKeeper loses data: each entry, and the root, is what it was at any moment before, or absent."""
    w = Const("back_w", Worker)
    return [ForAll([w], And(s.accepted(e_back(w)), worker(e_back(w)) == w))], \
        s.set(entry=e_back, root_floor=f, root_there=there, conn=s.conn() + 1, root_version=s.root_version() + 1,
              horizon=s.now() + THRESHOLD + LONGEST_LEASE, unnoted=True)


def note_loss(s, c: Number, f: Number):
    """Also: the root is made again, the parent repaired, `leafd cluster recover`. c is ZooKeeper's clock since the loss."""
    return [Or(Not(s.unnoted()), c >= s.horizon() - LONGEST_LEASE - 2 * THRESHOLD), f >= s.root_floor(),
            rule("loss-raises-floor", f >= c + LONGEST_LEASE + 2 * THRESHOLD)], \
        s.set(root_floor=f, root_there=True, root_version=s.root_version() + 1, unnoted=False)


def judge_loss(s, d: Directory, c: Number, f: Number):
    """A start whose record was acknowledged, and whose entry is before that, notes the loss; also one that has ended."""
    reach = c + 2 * THRESHOLD < s.f_acked(d)
    conditions, noted = note_loss(s, c, f)
    ended, first = "ended-judges-loss", "loss-noted-first"
    RULES.update((ended, first))
    judges = And(Or(reach, BoolVal(ended not in OUT)), Or(Not(reach), BoolVal(first not in OUT)))
    same = dict(root_floor=s.root_floor(), root_there=s.root_there(), root_version=s.root_version(), unnoted=s.unnoted())
    return conditions + [s.phase(d) == START, s.home(d), Or(s.f_state(d) == F_ACTIVE, released_in_file(s, d))], \
        s.set(**{n: If(judges, getattr(noted, n)(), was) for n, was in same.items()})


def cluster_open(s, c: Number, f: Number):
    """The operator's word: every holder is back, its entry as it knows it, or dead; the floor lies above all that was issued (A8)."""
    d, i, w, t = Const("open_d", Directory), Const("open_i", Instance), Const("open_w", Worker), Const("open_t", Number)

    def back(i, w, t):
        return And(instance(s.entry(w)) == i, state(s.entry(w)) != ABSENT, t < limit(s.entry(w)))

    return [clock(s, c), c + 2 * THRESHOLD < f, f <= s.now() + THRESHOLD + LONGEST_LEASE,
            assume("A8", And(ForAll([d, w, t], Implies(holds(s, d, w, t), back(s.f_instance(d), w, t))),
                             ForAll([i, w, t], Implies(s.made(i, w, t), t < f))))], \
        s.set(root_floor=f, root_there=True, root_version=s.root_version() + 1, horizon=f, unnoted=False,
              owns=lambda i, w, t: And(s.owns(i, w, t), Or(t < f, back(i, w, t))))


def damage(s, m: Write, w: Worker):
    """An entry is edited by hand, so that it can't be read."""
    e = s.entry(w)
    return [Not(s.sent(m)), state(e) != ABSENT, state(m) == DAMAGED, worker(m) == w, instance(m) == instance(e), life(m) == life(e),
            floor(m) == floor(e), limit(m) == limit(e), read(m) == e, Not(promotes(m)), Not(again(m)), conn_of(m) == s.conn(),
            root_of(m) == s.root_version()], takes(s, m)


def is_before(m, e, lo, hi):
    """e is before the piece [lo, hi): absent, older, a claim under which nothing was issued, or another's of before."""
    def forced(o):
        return And(instance(o) == instance(m), state(o) == RELEASED, floor(o) == lo)

    def older(o):
        return Or(state(o) == ABSENT, And(Not(forced(o)), Or(floor(o) < lo, And(floor(o) == lo, limit(o) <= hi))))

    RULES.add("loss-before-copy/over-of-anybody")
    was = Not(forced(over(e))) if "loss-before-copy/over-of-anybody" in OUT else older(over(e))
    claim = And(state(e) == CLAIM, instance(e) != instance(m), floor(e) < hi, rule("loss-before-copy/over", was))
    return rule("loss-before-copy", Or(And(BoolVal(LOSES[0]), state(e) == DAMAGED), claim,
                                       And(Or(state(e) != CLAIM, instance(e) == instance(m)), older(e))))


def put_back(s, d: Directory, m: Write, c: Number):
    e, on = s.entry(worker(m)), s.phase(d) == RUN
    lo, hi = If(on, s.p_floor(d), s.f_floor(d)), If(on, s.p_limit(d), s.f_acked(d))
    starts = And(s.phase(d) == START, s.home(d), rule("released-never-resumes", s.f_state(d) == F_ACTIVE))
    return [Or(on, starts), new(s, d, m, ACTIVE), worker(m) == If(on, s.p_worker(d), s.f_worker(d)), Not(promotes(m)), floor(m) == lo,
            limit(m) >= hi, Implies(And(state(e) != DAMAGED, instance(e) == instance(m)), limit(m) >= limit(e)),
            is_before(m, e, lo, hi), clock(s, c), reaches(c, hi), leased(m, c, hi)], sends(names_life(s, d, m), d, m)


KEPT = [begin, set_aside, copy, restore, damage_slot, crash, forget, no_answer, send_claim, answer_claim, send_promotion,
        send_resumption, answer_active, start_offline, save, publish, issue, lend, send_report, answer_report, stop, file_release,
        send_release, answer_release, send_late_release, answer_late_release, take, release_by_hand, release_by_force, put_back]
LOST = KEPT + [time_passes, set_back, note_loss, judge_loss, cluster_open, damage]
