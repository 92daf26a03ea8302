"""Runs of worker IDs: each rule and assumption taken out, and then two equal IDs; the same with all in place; and each transition."""

from workers_proof import *

KEEPS, LOSES_DATA = STAGES["kept"], STAGES["lost"]


def first():
    """The first state, with numbers in it."""
    values = {Number: IntVal(0), Flag: BoolVal(False), Record: F_NONE, Phase: OFF}
    s = State({n: (lambda v: lambda *args: v)(values.get(sorts[-1], Const(f"{sorts[-1]}0", sorts[-1]))) for n, sorts in PARTS.items()})
    m, w = Const("Write0", Write), Const("w", Worker)
    s = s.set(entry=lambda w: m, accepted=lambda x: x == m, root_there=True, now=1000, claim_conn=lambda d: IntVal(-1),
              f_worker=lambda d: w, p_worker=lambda d: w)
    return s, [state(m) == ABSENT, floor(m) == 0, limit(m) == 0, worker(m) == w, THRESHOLD == 5, LONGEST_LEASE == 100, LONGEST_LEND == 20], \
        {Write: ["Write0"]}


def repeats(s):
    l, k, t, w = Const("a life", Life), Const("another life", Life), Const("time", Number), Const("w", Worker)
    return Or(s.lent_twice(), And(l != k, s.issued(l, w, t), s.issued(k, w, t)))


def tell(value, log, names):
    """The writes of the run, each with its floor and limit, and what is issued or lent twice."""
    lent = value(log[-1][2].lent_twice())
    written = [Const(n, Write) for n in sorted(names.get(Write, set()) - {"Write0"}, key=lambda n: int(n[1:]))]
    said = [f"{m} {value(state(m))} [{value(floor(m))},{value(limit(m))})" for m in written]
    return ", ".join(said) + ("; a slot lent twice" if str(lent) == "True" else f"; {value(Const('time', Number))} issued twice")


# Steps that a rule has no place for.

def issue_on_claim(s, d: Directory, n: Number, hi: Number):
    return [s.phase(d) == START, s.f_state(d) == F_CLAIM, instance_of(s.p_life(d)) == s.f_instance(d), n >= s.f_ceiling(d),
            n >= s.f_floor(d)], runs(s, d, s.f_worker(d), s.f_floor(d), hi, n)


def resume_claim(s, d: Directory, m: Write, c: Number):
    e = s.entry(s.f_worker(d))
    return [s.phase(d) == START, new(s, d, m, ACTIVE), worker(m) == s.f_worker(d), instance(e) == s.f_instance(d),
            promotes(m) == BoolVal("settles" in OUT), s.f_state(d) == F_CLAIM, state(e) == ACTIVE, ours(s, d, e), clock(s, c),
            reaches(c, limit(e)), leased(m, c, limit(e)), floor(m) == floor(e), limit(m) >= limit(e)], sends(names_life(s, d, m), d, m)


def give_claim_back_released(s, d: Directory, m: Write):
    e = s.entry(worker(m))
    return [s.phase(d) == START, Not(s.sent(m)), sender(m) == d, instance(m) == s.f_instance(d), life(m) == s.p_life(d),
            state(m) == RELEASED, worker(m) == s.f_worker(d), read(m) == e, conn_of(m) == s.conn(), root_of(m) == s.root_version(),
            Not(again(m)), Not(promotes(m)), s.f_state(d) == F_CLAIM, state(e) == CLAIM, instance(e) == instance(m),
            floor(m) == s.f_floor(d), limit(m) == floor(m)], sends(s, d, m)


def set_back_to(s, m: Write):
    return [s.accepted(m)], s.set(entry=lambda w: m, conn=s.conn() + 1, root_version=s.root_version() + 1,
                                  horizon=s.now() + THRESHOLD + LONGEST_LEASE, unnoted=True)


EXTRA = (issue_on_claim, resume_claim, give_claim_back_released, set_back_to)
STEPS = {f.__name__: f for f in (*LOST, *EXTRA)}


# Parts of runs. a's instance is i, b's j; m1 and m2 are a's claim and promotion, m3 and m4 b's; t is issued by both.

def claims(d, m):
    return f"send_claim {d} {m}; take {m}; answer_claim {d}"


def promoted(d, m):
    return f"send_promotion {d} {m}; take {m}; answer_active {d}; save {d}; publish {d}"


def up(d, i, l, claim, promotion):
    return f"set_aside {d} {i}; begin {d} {l}; {claims(d, claim)}; {promoted(d, promotion)}"


def reported(d, m):
    return f"take {m}; answer_report {d}; save {d}; publish {d}"


A, B = up("a", "i", "l1", "m1", "m2"), up("b", "j", "l2", "m3", "m4")
OFFLINE = "begin a l3; start_offline a; save a; publish a"
ISSUES_AGAIN = f"crash a; {OFFLINE}; issue a t"
LENDS_AGAIN = "crash a; begin a l3; start_offline a; save a; lend a"
RELEASED_M5 = "file_release a; send_release a m5; take m5"
BACK = f"put_back a m8; {reported('a', 'm8')}; issue a t"
# a is forced out, b has the worker ID for a while, c claims it.
CLAIM_OVER = f"{A}; release_by_force m5 w; {B}; issue b t; file_release b; send_release b m6; take m6; crash b; set_aside c k; begin c l4; send_claim c m7; take m7"
# a's promotion has no answer; a backup of before it is put back, and b promoted; then one of after it.
TWO_RESTORES = f"set_aside a i; begin a l1; {claims('a', 'm1')}; send_promotion a m2; take m2; crash a; set_back_to Write0; {B}; issue b t; set_back_to m2"
FORCED = f"{A}; release_by_force m5 w; {B}; issue b t"
RESTORED = f"{A}; issue a t; set_back; note_loss; {B}; issue b t"
UNNOTED = f"{A}; issue a t; crash a; set_back; begin a l3; judge_loss a; crash a; set_aside a k; {B}; issue b t"
UNNOTED_ENDED = f"{A}; issue a t; crash a; time_passes; set_back; begin a l3; judge_loss a; crash a; set_aside a k; {B}; issue b t"


def mutant(rule, what, steps, stage, *more, out=None):
    return Run(rule, what, steps, stage, out=(out or (rule,)) + more)


MUTANTS = [
    mutant("floor-to-ceiling", "a life issues below where it began", f"{A}; issue a t; {ISSUES_AGAIN}", KEEPS),
    mutant("start-above-ceiling", "a start begins below the file's ceiling", f"{A}; issue a t; {ISSUES_AGAIN}", KEEPS),
    mutant("ceiling-before-use", "a time is used before its ceiling is filed", f"{A}; issue a t; {ISSUES_AGAIN}", KEEPS),
    mutant("whole-slots", "an older slot counts with its own ceiling", f"{A}; issue a t; crash a; damage_slot a; {OFFLINE}; issue a t", KEEPS),
    mutant("fence-is-final", "a life that was stopped issues on beside the next one", f"{A}; stop a; issue a t; {OFFLINE}; issue a t", KEEPS),
    mutant("one-directory", "a copy starts beside its original", f"{A}; copy b a; save a; publish a; issue a t; begin b l3; start_offline b; save b; publish b; issue b t", KEEPS),
    mutant("set-aside-always", "a copy of a claiming record claims again, over its original's entry",
           f"set_aside a i; begin a l1; {claims('a', 'm1')}; copy b a; {promoted('a', 'm2')}; issue a t; begin b l3; {claims('b', 'm5')}; {promoted('b', 'm6')}; issue b t", KEEPS),
    mutant("restored-record", "an earlier file is put back, and started from",
           f"{A}; copy b a; save a; publish a; issue a t; crash a; restore a b; {OFFLINE}; issue a t", KEEPS),
    mutant("confirmed-record", "a released record starts without ZooKeeper",
           f"{A}; {RELEASED_M5}; answer_release a; {OFFLINE}; issue a t; {B}; issue b t", KEEPS),
    mutant("release-filed-first", "the entry is released, the file not yet, at a crash",
           f"{A}; {RELEASED_M5}; {ISSUES_AGAIN}; {B}; issue b t", KEEPS),
    mutant("late-release", "a start releases the entry at another limit than the file's",
           f"{A}; issue a t; file_release a; crash a; begin a l3; send_late_release a m5; take m5; {B}; issue b t", KEEPS),
    mutant("released-never-resumes", "a released record resumes where ZooKeeper was set back",
           f"{A}; {RELEASED_M5}; answer_release a; {B}; issue b t; set_back; begin a l3; send_resumption a m6; take m6; answer_active a; save a; publish a; issue a t", LOSES_DATA),
    mutant("claim-again", "a claiming record resumes at once", f"{TWO_RESTORES}; begin a l3; resume_claim a m5; take m5; answer_active a; save a; publish a; issue a t",
           LOSES_DATA, out=("nothing",)),
    mutant("claim-again", "a claiming record settles and resumes; the loss is noted",
           f"{TWO_RESTORES}; note_loss; begin a l3; resume_claim a m5; take m5; answer_active a; save a; publish a; issue a t", LOSES_DATA, out=("settles",)),
    mutant("below-the-limit", "a life issues beyond its limit", f"{A}; issue a t; {B}; issue b t", KEEPS, "below-the-limit/filed"),
    mutant("below-the-limit/acknowledged", "a limit counts that was only sent",
           f"{A}; send_report a m5; answer_report a; save a; publish a; issue a t; {B}; issue b t", KEEPS),
    mutant("below-the-limit/filed", "a limit counts before it is in the file",
           f"{A}; send_report a m5; take m5; answer_report a; publish a; issue a t; crash a; begin a l3; start_offline a; save a; file_release a; send_release a m6; take m6; {B}; issue b t", KEEPS),
    mutant("below-the-limit", "a claim issues before its promotion",
           f"set_aside a i; begin a l1; {claims('a', 'm1')}; issue_on_claim a; save a; publish a; issue a t; {B}; issue b t", KEEPS, out=("nothing",)),
    mutant("floor-at-the-limit", "a claim's floor is below the limit that stands", f"{A}; issue a t; {B}; issue b t", KEEPS),
    mutant("floor-at-the-limit/rises", "a report lowers the limit", f"{A}; issue a t; send_report a m5; take m5; {B}; issue b t", KEEPS),
    mutant("damaged-put-back", "a newcomer claims over an entry that can't be read", f"{A}; issue a t; damage m9 w; {B}; issue b t", LOSES_DATA),
    mutant("claim-again/by-a-claim", "an active record claims again at its floor",
           f"{A}; issue a t; crash a; begin a l3; send_claim a m5; take m5; {B}; issue b t", KEEPS),
    mutant("one-path", "two claim one worker ID that they have read",
           f"set_aside a i; begin a l1; set_aside b j; begin b l2; send_claim a m1; send_claim b m3; take m1; answer_claim a; {promoted('a', 'm2')}; issue a t; "
           f"take m3; answer_claim b; {promoted('b', 'm4')}; issue b t", KEEPS),
    mutant("written-as-decided", "a report is taken over another's entry",
           f"{A}; send_report a m5; {B}; issue b t; {reported('a', 'm5')}; issue a t", KEEPS),
    mutant("loss-before-copy", "an entry is put back over a later one", f"{FORCED}; {BACK}", KEEPS),
    mutant("loss-before-copy/over", "and over a claim that was made over a later one", f"{CLAIM_OVER}; {BACK}", KEEPS),
    mutant("loss-before-copy/over-of-anybody", "a claim says only what of the reader's own it was made over", f"{CLAIM_OVER}; {BACK}", KEEPS),
    mutant("loss-before-copy/over-an-active-one", "a claim says only what released one it was made over",
           f"{FORCED}; set_aside c k; begin c l4; send_claim c m7; take m7; {BACK}", KEEPS),
    mutant("loss-before-copy/over-taken-along", "a claim over a claim says nothing",
           f"{CLAIM_OVER}; set_aside z x; begin z l5; send_claim z m10; take m10; {BACK}", KEEPS),
    mutant("ending-piece", "a piece that has ended by some clocks is resumed",
           f"{A}; send_report a m9; take m9; crash a; time_passes; {B}; issue b t; set_back; begin a l3; send_resumption a m5; take m5; answer_active a; save a; publish a; issue a t", LOSES_DATA),
    mutant("damaged-put-back", "an ended piece is put back over an entry that can't be read",
           f"{A}; time_passes; {B}; issue b t; damage m9 w; put_back a m5; {reported('a', 'm5')}; issue a t", LOSES_DATA, out=("ending-piece",)),
    mutant("judged-clock", "a limit is by a clock that no guard has judged", f"{A}; issue a t; set_back; note_loss; time_passes; {B}; issue b t", LOSES_DATA),
    mutant("judged-clock/floor", "a floor lies ahead of the clock",
           f"{A}; {B}; issue b t; set_back; send_report a m5; {reported('a', 'm5')}; issue a t", LOSES_DATA),
    mutant("root-checked", "a promotion is taken though a loss was noted since",
           f"{A}; issue a t; set_back; set_aside b j; begin b l2; {claims('b', 'm3')}; send_promotion b m4; note_loss; take m4; answer_active b; save b; publish b; issue b t", LOSES_DATA),
    mutant("root-checked/while-it-settles", "a claim is promoted under another root than it was made under",
           f"{A}; issue a t; set_back; set_aside b j; begin b l2; {claims('b', 'm3')}; note_loss; {promoted('b', 'm4')}; issue b t", LOSES_DATA),
    mutant("root-checked/connection", "a write outlives its connection, and ZooKeeper's data",
           f"{A}; send_report a m5; time_passes; {B}; issue b t; set_back; {reported('a', 'm5')}; issue a t", LOSES_DATA, "root-checked"),
    mutant("loss-raises-floor", "a loss is noted, and the root's floor stays", RESTORED, LOSES_DATA),
    mutant("loss-raises-floor/longest-lease", "a limit lies further ahead than the cluster's longest lease",
           f"{A}; issue a t; set_back; note_loss; time_passes; {B}; issue b t", LOSES_DATA),
    mutant("root-floor", "a claim's floor is below the root's", RESTORED, LOSES_DATA),
    mutant("settles-first", "a claim is promoted while its holder is on the way back (A3, a)", f"{A}; set_back; {B}; issue b t; issue a t", LOSES_DATA),
    mutant("settles-first/long-enough", "and while what was issued lies ahead (A3, b)", f"{A}; issue a t; set_back; crash a; set_aside a k; {B}; issue b t", LOSES_DATA),
    mutant("settles-first/long-enough", "a claim is given back as released, which yields to no put-back",
           f"{A}; issue a t; set_back; set_aside b j; begin b l2; {claims('b', 'm3')}; give_claim_back_released b m4; take m4; crash a; set_aside a k; {up('c', 'x', 'l4', 'm5', 'm6')}; issue c t", LOSES_DATA),
    mutant("loss-noted-first", "a start that knows better notes nothing, and A3 (b) does not hold", UNNOTED, LOSES_DATA, "settles-first/long-enough"),
    mutant("ended-judges-loss", "nor does one whose piece has ended", UNNOTED_ENDED, LOSES_DATA, "settles-first/long-enough"),
    mutant("slices/apart", "a slot's slice begins before the end of its last", f"{A}; lend a; lend a", KEEPS),
    mutant("slices/cold", "a start lends at once", f"{A}; lend a; {LENDS_AGAIN}", KEEPS),
    mutant("slices/ceiling", "one is lent at a clock beyond the filed ceiling", f"{A}; lend a; {LENDS_AGAIN}", KEEPS),
    mutant("slices/stop", "a stop's ceiling is that of the last ID", f"{A}; lend a; stop a; begin a l3; start_offline a; save a; lend a", KEEPS),
    mutant("slices/longest", "a slice is longer than the longest lend", f"{A}; lend a; {LENDS_AGAIN}", KEEPS),
    mutant("slices/limit", "a slice ends beyond the limit", f"{A}; lend a; {B}; lend b", KEEPS, "slices/limit-filed"),
    mutant("slices/limit-filed", "or beyond the limit in the file",
           f"{A}; send_report a m5; take m5; answer_report a; lend a; crash a; begin a l3; start_offline a; save a; file_release a; send_release a m6; take m6; {B}; lend b", KEEPS),
    mutant("A2", "--force, and the holder issues on", f"{FORCED}; issue a t", KEEPS),
    mutant("A2", "--force, and its limit is below what was issued", f"{A}; issue a t; release_by_force m5 w; {B}; issue b t", KEEPS),
    mutant("A2/lent", "--force, and its limit is below what was lent at", f"{A}; lend a; crash a; set_aside a k; release_by_force m5 w; {B}; lend b", KEEPS),
    mutant("A2f", "--force, the directory starts again, and ZooKeeper is set back",
           f"{A}; release_by_force m5 w; time_passes; {B}; issue b t; set_back_to m2; note_loss; send_report a m8; {reported('a', 'm8')}; issue a t", LOSES_DATA),
    mutant("A8", "`cluster open`, and a holder is neither back nor dead", f"{A}; set_back; cluster_open; time_passes; {B}; issue b t; issue a t", LOSES_DATA),
]

IN_PLACE = [Run("nothing", what, steps, stage, out, "never repeats") for what, steps, stage, out in [
    ("a take-over", f"{A}; issue a t; {B}; issue b t", KEEPS, ()),
    ("a loss that is noted", f"{A}; issue a t; set_back; note_loss; time_passes; {B}; issue b t", LOSES_DATA, ()),
    ("a loss that a start notes, without A3 (b)", UNNOTED, LOSES_DATA, ("settles-first/long-enough",)),
    ("and one whose piece has ended", UNNOTED_ENDED, LOSES_DATA, ("settles-first/long-enough",)),
    ("a claim over what was forced", f"{CLAIM_OVER}; {BACK}", KEEPS, ()),
    ("two restores, and a claiming record that claims again",
     f"{TWO_RESTORES}; note_loss; begin a l3; {claims('a', 'm5')}; {promoted('a', 'm6')}; issue a t", LOSES_DATA, ()),
    ("slices over a restart, a release and a take-over",
     f"{A}; lend a; {LENDS_AGAIN}; file_release a; send_release a m5; take m5; {B}; lend b", LOSES_DATA, ()),
]]

HAPPENS = [Run("reach", what, steps, LOSES_DATA, (), "happens") for what, steps in [
    ("reports, a resumption, a copy, a release",
     f"{A}; issue a t; send_report a m5; {reported('a', 'm5')}; send_report a m6; no_answer a; stop a; copy c a; damage_slot a; begin a l3; send_resumption a m7; take m7; "
     "answer_active a; save a; publish a; issue a; file_release a; send_release a m8; take m8; answer_release a; begin c l4; set_aside c k; begin b l2"),
    ("a start without ZooKeeper, losses, an entry put back",
     f"{A}; crash a; {OFFLINE}; issue a t; set_back; note_loss; time_passes; put_back a m5; {reported('a', 'm5')}; issue a; release_by_hand m6 w; crash a; begin a l5; forget a"),
    ("a forced release", f"{A}; issue a; crash a; set_aside a k; release_by_force m5 w; {B}; issue b; send_report b m6; no_answer b; set_back; put_back b m7"),
    ("slices, a damaged entry, a late release, `cluster open`, a claim made again, an earlier file",
     f"{A}; issue a; lend a; damage m5 w; put_back a m6; {reported('a', 'm6')}; lend a; copy y a; crash a; begin a l6; start_offline a; save a; file_release a; crash a; begin a l3; "
     "send_late_release a m7; take m7; answer_late_release a; crash a; restore a y; begin a l7; set_aside a n; "
     "set_back; time_passes; cluster_open; time_passes; begin b l4; set_aside b j; send_claim b m8; take m8; no_answer b; send_claim b m9; take m9; answer_claim b; "
     f"send_promotion b m10; take m10; crash b; begin b l5; {claims('b', 'm11')}; {promoted('b', 'm12')}; lend b"),
    ("a start that notes a loss", f"{A}; issue a; crash a; set_back; begin a l3; judge_loss a; put_back a m5; take m5"),
]]
