"""The invariants of worker IDs, each with its sentence; the first state; the two stages."""

from workers import *


def may_be_taken(s, m):
    return And(s.sent(m), Not(s.accepted(m)), read(m) == s.entry(worker(m)), conn_of(m) == s.conn(), root_of(m) == s.root_version())


def lost(s, t):
    """A loss of data may have taken it: the root's floor keeps others from it."""
    return And(BoolVal(LOSES[0]), Or(t < s.root_floor(), t < s.horizon()))


def live(s, d):
    return Or(s.phase(d) == START, s.phase(d) == RUN)


def answered(s, d):
    """A write that makes its entry active was taken, and the answer is on its way."""
    m = s.asked(d)
    return And(live(s, d), s.waits(d), s.accepted(m), state(m) == ACTIVE)


def active_file(s, d, w):
    return And(s.home(d), s.f_state(d) == F_ACTIVE, s.f_worker(d) == w)


def running(s, d, w):
    return And(s.phase(d) == RUN, s.p_worker(d) == w)


def safety(s, l: Life, k: Life, w: Worker, t: Number):
    "No two lives issue one (worker ID, time)."
    return Implies(And(s.issued(l, w, t), s.issued(k, w, t)), l == k)


def lent_once(s):
    "No two slices of a slot overlap."
    return Not(s.lent_twice())


def issued_by_instance(s, l: Life, w: Worker, t: Number):
    "What a life issued, or lent at, its instance did; a slice begins at or above its clock, and ends within the longest lend of it."
    c = s.slice_at(l, w, t)
    return And(Implies(s.issued(l, w, t), And(s.made(instance_of(l), w, t), s.seen_life(l))),
               Implies(s.lends(l, w, t), And(s.lent(instance_of(l), w, t), s.seen_life(l))),
               Implies(s.slice(l, w, t), And(s.lends(l, w, c), within(c, t, c + LONGEST_LEND))))


def used_is_owned(s, i: Instance, w: Worker, t: Number):
    "What an instance issued, or lent at, ZooKeeper had given to it."
    return And(Implies(s.used(i, w, t), s.owns(i, w, t)), Or(s.made(i, w, t), s.lent(i, w, t)) == s.used(i, w, t))


def pieces_disjoint(s, i: Instance, j: Instance, w: Worker, t: Number):
    "No time of a worker ID is two instances'."
    return Implies(And(s.owns(i, w, t), s.owns(j, w, t)), i == j)


def others_before_floor(s, i: Instance, w: Worker, t: Number):
    "What another instance than the entry's owns lies below the entry's floor."
    return Implies(And(s.owns(i, w, t), i != instance(s.entry(w))), Or(t < floor(s.entry(w)), lost(s, t)))


def own_below_limit(s, i: Instance, w: Worker, t: Number):
    "What the entry's instance owns lies below the entry's limit."
    return Implies(And(s.owns(i, w, t), i == instance(s.entry(w))), Or(t < limit(s.entry(w)), lost(s, t)))


def file_owned(s, d: Directory, t: Number):
    "The piece of a usable active record is its instance's, but for what --force took."
    given = Or(s.owns(s.f_instance(d), s.f_worker(d), t), s.forced(s.f_instance(d), s.f_worker(d), t))
    return Implies(And(s.home(d), s.f_state(d) == F_ACTIVE, within(s.f_floor(d), t, s.f_acked(d))), given)


def process_owned(s, d: Directory, t: Number):
    "So is that of a life that issues."
    given = Or(s.owns(s.f_instance(d), s.p_worker(d), t), s.forced(s.f_instance(d), s.p_worker(d), t))
    return Implies(And(s.phase(d) == RUN, within(s.p_floor(d), t, s.p_limit(d))), given)


def answer_owned(s, d: Directory, t: Number):
    "And that of a write whose answer is on its way."
    m = s.asked(d)
    given = Or(s.owns(s.f_instance(d), worker(m), t), s.forced(s.f_instance(d), worker(m), t))
    return Implies(And(answered(s, d), within(floor(m), t, limit(m))), given)


def entries(s, w: Worker):
    "An entry is a write to its own path that was taken."
    m = s.entry(w)
    return And(worker(m) == w, s.accepted(m), floor(m) <= limit(m))


def writes(s, m: Write):
    "A write is conditional on one that was taken before; its instance and life were there."
    shape = And(Implies(state(m) == CLAIM, limit(m) == floor(m)), Implies(Or(state(m) == ACTIVE, state(m) == RELEASED), floor(m) < limit(m)),
                Implies(again(m), state(m) == CLAIM), state(m) != ABSENT)
    before = And(s.accepted(read(m)), conn_of(m) <= s.conn(), Implies(conn_of(m) == s.conn(), root_of(m) <= s.root_version()))
    seen = And(s.seen_instance(instance(m)), s.seen_life(life(m)))
    return And(Implies(s.sent(m), And(before, floor(m) <= limit(m), shape)),
               Implies(And(s.sent(m), Not(s.accepted(m))), And(seen, state(m) != DAMAGED)),
               Implies(And(s.accepted(m), state(m) != ABSENT), And(s.sent(m), seen)))


def active_prolongs(s, m: Write):
    "A write that makes an entry active follows on one of its instance, and neither floor nor limit falls."
    e = s.entry(worker(m))
    return Implies(And(may_be_taken(s, m), state(m) == ACTIVE),
                   And(instance(e) == instance(m), state(e) != RELEASED, floor(m) >= floor(e), limit(m) >= limit(e),
                       Implies(promotes(m), And(state(e) == CLAIM, floor(m) == limit(e)))))


def claim_follows(s, m: Write):
    "A claim's floor is at or above floor and limit of what stands, but for a limit of its own under which nothing was issued."
    e = s.entry(worker(m))
    idle = And(again(m), instance(e) == instance(m), state(e) == ACTIVE)
    return Implies(And(may_be_taken(s, m), state(m) == CLAIM),
                   And(floor(m) >= floor(e), Or(floor(m) >= limit(e), idle), over(m) == was_over(e), state(e) != DAMAGED))


def over_is_no_claim(s, m: Write):
    "What a claim was made over is no claim."
    o = over(m)
    piece = And(Or(state(o) == ACTIVE, state(o) == RELEASED), floor(o) < limit(o))
    return Implies(And(s.accepted(m), state(m) == CLAIM), Or(state(o) == ABSENT, piece))


def release_follows(s, m: Write):
    "A release follows on an entry of its instance and floor."
    e = s.entry(worker(m))
    return Implies(And(may_be_taken(s, m), state(m) == RELEASED), And(instance(e) == instance(m), floor(m) == floor(e)))


def release_is_filed(s, m: Write, d: Directory):
    "While a release may be taken the file gives no right to the worker ID, and no life issues under it."
    w, p = worker(m), s.asked(d)
    return Implies(And(may_be_taken(s, m), state(m) == RELEASED, s.home(d), s.f_instance(d) == instance(m)),
                   And(Implies(s.f_worker(d) == w, And(s.f_state(d) != F_ACTIVE, s.f_state(d) != F_CLAIM)), Not(running(s, d, w)),
                       Not(And(live(s, d), s.waits(d), s.accepted(p), worker(p) == w))))


def again_is_idle(s, m: Write, d: Directory):
    "While a claim over our own active entry may be taken its instance holds nothing; while a write that makes it active may, no more than that."
    w = worker(m)
    return Implies(And(may_be_taken(s, m), Or(again(m), state(m) == ACTIVE), s.f_instance(d) == instance(m)),
                   And(Implies(active_file(s, d, w), And(Not(again(m)), s.f_acked(d) <= limit(m))),
                       Implies(running(s, d, w), And(Not(again(m)), s.p_limit(d) <= limit(m))),
                       Not(And(answered(s, d), worker(s.asked(d)) == w))))


def above_used(s, m: Write, t: Number):
    "A write that may be taken leaves a limit above all that its instance used; a promotion, a floor."
    return Implies(And(may_be_taken(s, m), s.used(instance(m), worker(m), t)), Or(lost(s, t), t < If(promotes(m), floor(m), limit(m))))


def ceiling_filed(s, d: Directory, w: Worker, t: Number):
    "The file's ceiling lies above all that its instance issued, or lent at."
    return Implies(And(s.home(d), Or(s.made(s.f_instance(d), w, t), s.lent(s.f_instance(d), w, t))), t < s.f_ceiling(d))


def starts_above(s, d: Directory, w: Worker, t: Number):
    "A life that issues began above all that earlier ones issued."
    return Implies(And(s.phase(d) == RUN, s.made(s.f_instance(d), w, t)), Or(t < s.p_start(d), s.issued(s.p_life(d), w, t)))


def lends_above(s, d: Directory, l: Life, w: Worker, t: Number):
    "It lends from its start and the longest lend on, each slice above its last; earlier lives lent below its start."
    lent = Implies(s.lent(s.f_instance(d), w, t), t < greater(s.p_start(d), s.lent_at(d) + 1))
    lends = Implies(And(s.lends(l, w, t), instance_of(l) == s.f_instance(d)), Or(t < s.p_start(d), l == s.p_life(d)))
    own = Implies(s.slice(s.p_life(d), w, t), t < s.lend_from(d))
    return And(LONGEST_LEND >= 0, Implies(s.phase(d) == RUN, And(s.lend_from(d) >= s.p_start(d) + LONGEST_LEND, lent, lends, own)))


def known_limit(s, d: Directory, t: Number):
    "What an instance used under the worker ID of its piece lies below the limit that it knows."
    m = s.asked(d)

    def used(w):
        return And(s.used(s.f_instance(d), w, t), Not(lost(s, t)))

    inactive = And(s.home(d), s.f_state(d) != F_NONE, s.f_state(d) != F_ACTIVE)
    return And(Implies(And(s.home(d), s.f_state(d) == F_ACTIVE, used(s.f_worker(d))), t < s.f_acked(d)),
               Implies(And(s.phase(d) == RUN, used(s.p_worker(d))), t < s.p_limit(d)),
               Implies(And(live(s, d), s.waits(d), Or(s.accepted(m), may_be_taken(s, m)), used(worker(m))), t < limit(m)),
               Implies(And(inactive, used(s.f_worker(d))), t < s.f_limit(d)),
               Implies(And(s.phase(d) == REL, used(s.p_worker(d))), t < s.p_next(d)))


def process(s, d: Directory):
    "What a process has in memory goes with the file."
    m, f = s.asked(d), s.f_state(d)
    published = And(s.p_ceiling(d) <= s.f_ceiling(d), s.p_ceiling(d) <= s.p_limit(d), s.p_ceiling(d) <= s.f_acked(d), s.p_filed(d))
    in_file = And(f == F_ACTIVE, s.f_worker(d) == s.p_worker(d), s.f_floor(d) == s.p_floor(d), s.f_acked(d) <= s.p_limit(d),
                  s.f_limit(d) == s.f_acked(d))
    sent = And(limit(m) >= s.p_limit(d), floor(m) == s.p_floor(d), worker(m) == s.p_worker(d))
    return And(
        Implies(s.phase(d) != OFF, And(s.seen_life(s.p_life(d)),
                                       Implies(s.phase(d) != START, And(s.home(d), instance_of(s.p_life(d)) == s.f_instance(d))))),
        Implies(s.home(d), s.seen_instance(s.f_instance(d))),
        Implies(And(s.home(d), f == F_CLAIM), s.f_limit(d) == s.f_floor(d)),
        Implies(And(s.home(d), f == F_ACTIVE), s.f_floor(d) < s.f_acked(d)),
        Implies(And(f == F_ACTIVE, s.phase(d) == RUN), And(s.f_worker(d) == s.p_worker(d), s.f_acked(d) <= s.p_limit(d))),
        Implies(And(f == F_ACTIVE, s.phase(d) == START, s.waits(d), state(m) == ACTIVE),
                And(s.f_worker(d) == worker(m), s.f_acked(d) <= limit(m))),
        Implies(s.phase(d) == RUN, And(s.p_floor(d) < s.p_limit(d), s.p_next(d) >= s.p_start(d), s.p_start(d) >= s.p_floor(d),
                                       Or(s.p_ceiling(d) == s.p_start(d), published), Implies(s.p_filed(d), in_file),
                                       Implies(And(s.waits(d), state(m) == ACTIVE), sent))),
        Implies(s.phase(d) == REL, And(f == F_RELEASING, s.f_worker(d) == s.p_worker(d))),
        Implies(f == F_ACTIVE, s.f_limit(d) == s.f_acked(d)))


def waiting(s, d: Directory):
    "A process waits for the answer to a write of its own."
    m = s.asked(d)
    return Implies(And(s.phase(d) != OFF, s.waits(d)),
                   And(s.sent(m), sender(m) == d, instance(m) == s.f_instance(d), life(m) == s.p_life(d), s.home(d),
                       Implies(s.phase(d) == RUN, state(m) == ACTIVE),
                       Implies(s.phase(d) == REL, And(state(m) == RELEASED, worker(m) == s.p_worker(d)))))


def one_home(s, d: Directory, e: Directory):
    "One directory an instance, one process a life."
    return And(Implies(And(s.home(d), s.home(e), s.f_instance(d) == s.f_instance(e)), d == e),
               Implies(And(s.phase(d) != OFF, s.phase(e) != OFF, s.p_life(d) == s.p_life(e)), d == e))


def owners_seen(s, i: Instance, w: Worker, t: Number):
    "An instance that owns something was there."
    return Implies(Or(s.owns(i, w, t), s.forced(i, w, t)), s.seen_instance(i))


def floors_rise(s, d: Directory):
    "While ZooKeeper keeps its data no floor at a path falls: an entry is not before what its holders know."
    def there(w, lo):
        return And(state(s.entry(w)) != ABSENT, lo <= floor(s.entry(w)))

    m = s.asked(d)
    return And(Implies(And(s.home(d), s.f_state(d) != F_NONE), there(s.f_worker(d), s.f_floor(d))),
               Implies(s.phase(d) == RUN, there(s.p_worker(d), s.p_floor(d))),
               Implies(And(s.phase(d) != OFF, s.waits(d), s.accepted(m)), there(worker(m), floor(m))))


def force_is_seen(s, d: Directory, w: Worker, t: Number):
    "An instance that --force took something from finds its own release at the path, or a later piece; beneath a claim, too."
    e, m = s.entry(w), s.asked(d)

    def seen(o, lo):
        own = And(instance(o) == s.f_instance(d), state(o) == RELEASED, floor(o) == lo)
        return And(state(o) != ABSENT, Or(own, floor(o) > lo))

    def finds(lo):
        return Or(t < lo, And(seen(e, lo), seen(was_over(e), lo)))

    return Implies(s.forced(s.f_instance(d), w, t),
                   And(Implies(active_file(s, d, w), finds(s.f_floor(d))), Implies(running(s, d, w), finds(s.p_floor(d))),
                       Implies(And(answered(s, d), worker(m) == w), finds(floor(m)))))


WHERE_KEPT = [active_prolongs, floors_rise, force_is_seen]
BOTH = [safety, lent_once, issued_by_instance, used_is_owned, pieces_disjoint, others_before_floor, own_below_limit, file_owned,
        process_owned, answer_owned, entries, writes, claim_follows, over_is_no_claim, release_follows, release_is_filed, again_is_idle, above_used,
        ceiling_filed, starts_above, lends_above, known_limit, process, waiting, one_home, owners_seen]


# Where ZooKeeper loses data.

def order_of_pieces(s, i: Instance, j: Instance, w: Worker, t: Number, u: Number):
    "Where another instance owns a later time, this one's lies within a threshold of now: its piece has ended, by every clock."
    return Implies(And(s.owns(i, w, t), s.owns(j, w, u), i != j, t < u), t < s.now() + THRESHOLD)


def horizon(s, i: Instance, w: Worker, t: Number):
    "Nothing is owned further ahead than the longest lease and a threshold, nor was anything lent at a clock further than that."
    far = s.now() + THRESHOLD
    return And(Implies(s.owns(i, w, t), t < far + LONGEST_LEASE), Implies(s.lent(i, w, t), t <= far))


def horizon_of_writes(s, m: Write):
    "No write has a floor further ahead than a threshold, or a limit further than the longest lease and that."
    far = s.now() + THRESHOLD
    return Implies(Or(s.sent(m), s.accepted(m)),
                   And(floor(m) <= far, limit(m) <= far + LONGEST_LEASE, Implies(And(s.sent(m), promotes(m)), state(m) == ACTIVE),
                       Implies(And(s.accepted(m), state(m) == ABSENT), limit(m) == floor(m))))


def horizon_of_daemons(s, d: Directory):
    "No usable record, and no process, has either."
    near, far = s.now() + THRESHOLD, s.now() + THRESHOLD + LONGEST_LEASE
    return And(Implies(And(s.home(d), s.f_state(d) != F_NONE), And(s.f_floor(d) <= near, s.f_limit(d) <= far, s.f_acked(d) <= far)),
               Implies(s.phase(d) == RUN, And(s.p_floor(d) <= near, s.p_limit(d) <= far)),
               Implies(s.phase(d) == REL, And(s.p_next(d) <= far, s.p_floor(d) <= near)))


def active_alone(s, m: Write, k: Instance, t: Number):
    "What others own lies below a write that makes an entry active (a promotion: once the loss is noted)."
    return Implies(And(may_be_taken(s, m), state(m) == ACTIVE, Implies(promotes(m), Not(s.unnoted())), k != instance(m),
                       s.owns(k, worker(m), t)), t < floor(m))


def active_covers(s, m: Write):
    "Such a write leaves no limit below what stands."
    e = s.entry(worker(m))
    settled = And(instance(e) == instance(m), state(e) == CLAIM, floor(e) == floor(m), s.root_floor() <= floor(m))
    return Implies(And(may_be_taken(s, m), state(m) == ACTIVE),
                   And(floor(e) <= limit(m), Implies(And(state(e) != DAMAGED, instance(e) == instance(m)), limit(e) <= limit(m)),
                       Implies(promotes(m), settled)))


def claim_above_root(s, m: Write, d: Directory):
    "A claim lies at or above the floor of the root under which it was made."
    same = And(s.accepted(m), s.root_version() == root_of(m), s.conn() == conn_of(m))
    record = And(s.phase(d) == START, s.home(d), s.f_state(d) == F_CLAIM, s.claim_root(d) == s.root_version(), s.claim_conn(d) == s.conn())
    return And(Implies(And(Or(may_be_taken(s, m), same), state(m) == CLAIM), floor(m) >= s.root_floor()),
               Implies(record, s.f_floor(d) >= s.root_floor()))


def root_versions(s, d: Directory):
    "Versions of the root, and connections, are not used again."
    return And(s.conn() >= 0, s.claim_conn(d) <= s.conn(), Implies(s.claim_conn(d) == s.conn(), s.claim_root(d) <= s.root_version()))


def force_is_final(s, i: Instance, w: Worker, t: Number, d: Directory):
    "An instance that --force took something from never starts again (A2f)."
    return Implies(And(s.forced(i, w, t), s.f_instance(d) == i), Not(Or(s.home(d), s.phase(d) == RUN, s.phase(d) == REL)))


def noted_is_covered(s):
    "Once a loss is noted the root's floor lies beyond all pieces of before it."
    return Or(s.unnoted(), s.root_floor() >= s.horizon())


def clocks(s):
    "Threshold and lease."
    return And(s.now() >= 0, THRESHOLD >= 0, LONGEST_LEASE >= 1)


WHERE_LOST = [order_of_pieces, horizon, horizon_of_writes, horizon_of_daemons, active_alone, active_covers, claim_above_root,
              root_versions, force_is_final, noted_is_covered, clocks]


def initial(s):
    d, i, w, t, l, m = (Const(n, sort) for n, sort in (("d", Directory), ("i", Instance), ("w", Worker), ("t", Number), ("l", Life), ("m", Write)))
    absent = And(state(s.entry(w)) == ABSENT, floor(s.entry(w)) == 0, limit(s.entry(w)) == 0, worker(s.entry(w)) == w, s.accepted(s.entry(w)))
    return [ForAll([d], And(s.phase(d) == OFF, Not(s.home(d)), Not(s.waits(d)), s.f_state(d) == F_NONE, s.claim_conn(d) == -1)),
            ForAll([i, w, t], Not(Or(s.owns(i, w, t), s.forced(i, w, t), s.used(i, w, t), s.made(i, w, t), s.lent(i, w, t)))),
            ForAll([l, w, t], Not(Or(s.issued(l, w, t), s.lends(l, w, t), s.slice(l, w, t)))), ForAll([w], absent), ForAll([m], Not(s.sent(m))),
            ForAll([m], Implies(s.accepted(m), And(state(m) == ABSENT, floor(m) == 0, limit(m) == 0))), ForAll([l], Not(s.seen_life(l))),
            ForAll([i], Not(s.seen_instance(i))), s.conn() == 0, s.root_version() == 0, s.now() >= 0, THRESHOLD >= 0, LONGEST_LEASE >= 1,
            LONGEST_LEND >= 0, s.root_floor() == 0, s.root_there(), s.horizon() == 0, Not(s.unnoted()), Not(s.lent_twice())]


# Instances of invariants that z3 does not come to by itself: no other instance owns anything later than the last time of a piece
# that reaches.

def last_time(s, i, w, hi):
    k, t = Const("not_k", Instance), Const("not_t", Number)
    return [order_of_pieces(s, i, k, w, hi - 1, t), order_of_pieces(s, k, i, w, t, hi - 1), pieces_disjoint(s, i, k, w, t)]


def hints():
    def of_put_back(s, d, m, c):
        of_process, of_file = (s.p_worker(d), s.p_limit(d)), (s.f_worker(d), s.f_acked(d))
        owned = [process_owned(s, d, s.p_limit(d) - 1), file_owned(s, d, s.f_acked(d) - 1)]
        if LOSES[0]:
            return owned + last_time(s, s.f_instance(d), *of_file) + last_time(s, s.f_instance(d), *of_process)
        return owned + [force_is_seen(s, d, w, hi - 1) for w, hi in (of_process, of_file)]

    def of_report(s, d, m, c):
        owned = [process_owned(s, d, s.p_limit(d) - 1), process_owned(s, d, Const("not_t", Number))]
        return owned + last_time(s, s.f_instance(d), s.p_worker(d), s.p_limit(d)) if LOSES[0] else []

    def of_resumption(s, d, m, c):
        owned = [file_owned(s, d, s.f_acked(d) - 1)]
        return owned + last_time(s, s.f_instance(d), s.f_worker(d), s.f_acked(d)) if LOSES[0] else []

    def of_lend(s, d, t0, t1, c, k, u):
        i, w, at = s.f_instance(d), s.p_worker(d), s.slice_at(k, s.p_worker(d), u)
        return [issued_by_instance(s, k, w, u), issued_by_instance(s, k, w, at), used_is_owned(s, instance_of(k), w, at),
                process_owned(s, d, at), pieces_disjoint(s, instance_of(k), i, w, at), lends_above(s, d, k, w, at), lends_above(s, d, k, w, u), process(s, d)]

    def of_take(s, m):
        e = s.entry(worker(m))
        return [claim_follows(s, m), over_is_no_claim(s, e), writes(s, e), entries(s, worker(m))]

    return {take: of_take, lend: of_lend, put_back: of_put_back, send_report: of_report, send_resumption: of_resumption}


def stage(name, loses, invariants, transitions):
    def enter():
        LOSES[0] = loses
    return Stage(name, enter, PARTS, initial, invariants, transitions, hints(), lemmas=(over_is_no_claim,))


STAGES = {"kept": stage("worker IDs and slices, ZooKeeper keeps its data", False, BOTH + WHERE_KEPT, KEPT),
          "lost": stage("worker IDs and slices, ZooKeeper loses data", True, BOTH + WHERE_LOST, LOST)}
