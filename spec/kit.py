"""What both proofs are made of: states, transitions, one query of z3 for each pair of them, and runs along a list of steps.

A state has named parts, each a function that makes a term of z3. A transition is a Python function of a state and of what it
chooses, with the sorts as annotations; it returns its conditions and the state after it. An invariant is one that returns a term,
and has its sentence as its docstring.
"""

import inspect

from z3 import (And, BoolSort, BoolVal, Const, DeclareSort, Distinct, EnumSort, Exists, ForAll, Function, If, Implies, Int, IntSort,
                IntVal, Not, Or, Solver, is_false, sat, unknown, unsat)

Number, Flag = IntSort(), BoolSort()
OUT = set()  # what is taken out: rules, parts of rules, assumptions
RULES, ASSUMPTIONS = set(), set()  # named so far
TIMEOUT = 20_000


def rule(name, term):
    """A rule of docs/ARCHITECTURE.md by its name, or a part of it as "rule/part"."""
    RULES.add(name)
    return BoolVal(True) if name in OUT else term


def assume(name, term):
    """What a proof rests on and leafd can't keep; README.md says each."""
    ASSUMPTIONS.add(name)
    return BoolVal(True) if name in OUT else term


def greater(a, b):
    return If(a >= b, a, b)


def within(lo, t, hi):
    return And(lo <= t, t < hi)


class State:
    def __init__(self, parts):
        self.__dict__.update(parts)

    def set(self, **parts):
        """The same with other parts: functions, or values of those without arguments."""
        return State({**self.__dict__, **{n: p if callable(p) else constant(p) for n, p in parts.items()}})

    def at(self, key, **values):
        """The same with other values at a key, a tuple or one argument."""
        key = key if isinstance(key, tuple) else (key,)
        return self.set(**{n: changed(getattr(self, n), key, v) for n, v in values.items()})


def constant(value):
    value = {True: BoolVal(True), False: BoolVal(False)}.get(value, value) if isinstance(value, bool) else value
    return lambda: IntVal(value) if isinstance(value, int) else value


def changed(part, key, value):
    return lambda *args: If(And(*[a == k for a, k in zip(args, key)]), value, part(*args))


def state_of(parts):
    """A state of unknown parts, by their sorts."""
    return State({n: Function(n, *sorts) if len(sorts) > 1 else constant(Const(n, sorts[0])) for n, sorts in parts.items()})


def chosen(f, prefix):
    """Unknowns for the arguments of a transition or an invariant, but for its state."""
    return [Const(prefix + n, p.annotation) for n, p in inspect.signature(f).parameters.items() if n != "s"]


def always(f, s):
    args = chosen(f, "any_")
    return ForAll(args, f(s, *args)) if args else f(s)


def ask(*terms):
    solver = Solver()
    solver.set("timeout", TIMEOUT)
    solver.set("random_seed", 0)
    solver.add(*terms)
    return solver.check(), solver


class Stage:
    """A setting in which a proof is made. A lemma is an invariant that no other one needs."""

    def __init__(self, name, enter, parts, initial, invariants, transitions, hints=None, out=(), lemmas=()):
        self.name, self.enter, self.parts, self.initial = name, enter, parts, initial
        self.invariants, self.transitions, self.hints, self.out, self.lemmas = invariants, transitions, hints or {}, out, lemmas

    def begin(self, out=()):
        self.enter()
        OUT.clear()
        OUT.update(out, self.out)

    def first(self):
        """The first state has every invariant: those that it breaks, or where z3 doesn't know."""
        self.begin()
        s = state_of(self.parts)
        answer, _ = ask(*self.initial(s), Not(And(*[always(f, s) for f in self.invariants])))
        return [] if answer == unsat else [f"the first state: {answer}"]

    def keeps(self, transition, out=()):
        """A transition keeps every invariant: those that it breaks, or where z3 doesn't know."""
        self.begin(out)
        s = state_of(self.parts)
        args = chosen(transition, "")
        conditions, after = transition(s, *args)
        hints = self.hints[transition](s, *args) if transition in self.hints else []
        holds = [always(f, s) for f in self.invariants if f not in self.lemmas] + hints
        wrong = []
        for f in self.invariants:
            at = chosen(f, "not_")
            answer, _ = ask(*holds, f(s, *at), *conditions, Not(f(after, *at)))
            if answer != unsat:
                wrong.append(f"{transition.__name__} / {f.__name__}: {answer}")
        return wrong


class Run:
    """A run from the first state along a list of steps; z3 chooses what they leave open."""

    def __init__(self, name, what, steps, stage, out=(), expected="repeats"):
        self.name, self.what, self.steps, self.stage, self.out, self.expected = name, what, steps, stage, out, expected

    def follow(self, first, transitions, repeats, tell):
        """What comes of it ("repeats", "never repeats", "happens", "unknown"), and the repeat in words."""
        self.stage.begin(self.out)
        s, terms, known = first()
        names, log = {}, []
        for number, step in enumerate(x.split() for x in self.steps.replace("\n", ";").split(";") if x.strip()):
            f, args = transitions[step[0]], []
            params = [(n, p.annotation) for n, p in inspect.signature(f).parameters.items() if n != "s"]
            for (n, sort), word in zip(params, step[1:] + ["_"] * len(params)):
                if sort == Number and word.lstrip("-").isdigit():
                    args.append(IntVal(int(word)))
                elif sort == Flag and word in ("yes", "no"):
                    args.append(BoolVal(word == "yes"))
                else:
                    args.append(Const(f"{n}.{number}" if word == "_" else word, sort))
                    if word != "_" and sort != Number:
                        names.setdefault(sort, set(known.get(sort, ()))).add(word)
            conditions, s = f(s, *args)
            terms += conditions
            log.append((step, args, s))
        terms += [Distinct(*[Const(n, sort) for n in sorted(of)]) for sort, of in names.items() if len(of) > 1]
        if self.expected != "happens":
            terms.append(repeats(s))
        answer, solver = ask(*terms)
        if answer == unknown:
            return "unknown", ""
        if answer == unsat:
            return "never repeats" if self.expected != "happens" else "can't happen", ""
        if self.expected == "happens":
            return "happens", ""
        model = solver.model()
        return "repeats", tell(lambda term: model.eval(term, True), log, names)


def steps_of(run):
    return {x.split()[0] for x in run.steps.replace("\n", ";").split(";") if x.strip()}
