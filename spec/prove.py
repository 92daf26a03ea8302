"""prove.py            the proofs, the runs and the cells of Decide: exits 1 where one isn't as expected
prove.py results    the same, and results.txt and decide.txt again
prove.py RULE       the runs of that rule or assumption, and of its parts"""

import multiprocessing
import os
import sys
import time
from pathlib import Path

import decide
import kit
import segments_runs
import workers_runs

HERE = Path(__file__).parent
BOTH = (workers_runs, segments_runs)
STAGES = [stage for of in BOTH for stage in of.STAGES.values()]
RUNS = [(of, run) for of in BOTH for run in of.MUTANTS + of.IN_PLACE + of.HAPPENS]


def proved(stage, transition):
    """What of a transition, or with -1 of the first state, is not proved."""
    of = STAGES[stage]
    return of.first() if transition < 0 else of.keeps(of.transitions[transition])


def followed(number):
    of, run = RUNS[number]
    return run.follow(of.first, of.STEPS, of.repeats, of.tell)


def work(task):
    f, *args = task
    return f(*args)


def rule_names():
    lines = [line.split() for line in (HERE / "rules.tsv").read_text().splitlines() if line and not line.startswith("#")]
    return {name for section, name, *_ in lines if section[0] != "-"}


def unnamed():
    """Where rules.tsv, the models, their runs and their transitions differ."""
    for stage in STAGES:
        stage.begin()
        for f in stage.transitions:
            f(kit.state_of(stage.parts), *kit.chosen(f, ""))
    mutants = [run for _, run in RUNS if run.expected == "repeats"]
    out = {name for run in mutants for name in run.out} - {"nothing", "settles"}
    listed, taken_out = rule_names(), {run.name.split("/")[0] for run in mutants}
    wrong = [f"{n}: in rules.tsv, and no run takes it out" for n in listed - taken_out]
    wrong += [f"{n}: taken out by a run, and neither in rules.tsv nor an assumption" for n in taken_out - listed - kit.ASSUMPTIONS]
    wrong += [f"{n}: in a model, and no run takes it out" for n in (kit.RULES | kit.ASSUMPTIONS) - out]
    wrong += [f"{n}: taken out by a run, and in no model" for n in out - kit.RULES - kit.ASSUMPTIONS - {r.name for r in mutants}]
    for of in BOTH:
        happen = {step for run in of.HAPPENS for step in kit.steps_of(run)}
        wrong += [f"{f.__name__}: no run has it" for stage in of.STAGES.values() for f in stage.transitions if f.__name__ not in happen]
    return sorted(set(wrong))


def rows(answers):
    """A line for each stage, and for each run with what came of it."""
    for stage in STAGES:
        pairs = len(stage.invariants) * len(stage.transitions)
        yield f"{stage.name}: {len(stage.invariants)} invariants, {len(stage.transitions)} transitions, {pairs + 1} queries, proved"
    for (_, run), (_, words) in zip(RUNS, answers):
        if run.expected == "repeats":
            yield f"{run.name}: {run.what}: {words}"
    for (_, run) in RUNS:
        if run.expected != "repeats":
            yield f"{run.expected}: {run.what}"


def main(command=""):
    began, failed = time.time(), []
    runs = [i for i, (_, run) in enumerate(RUNS) if not command or command == "results" or run.name.split("/")[0] == command]
    if not runs:
        sys.exit(__doc__)
    tasks = [(followed, i) for i in runs]
    if len(runs) == len(RUNS):
        tasks += [(proved, i, t) for i, stage in enumerate(STAGES) for t in range(-1, len(stage.transitions))]
        tasks += [(decide.implied, i) for i in range(len(decide.WRITES))] + [(decide.needed, name) for name in decide.NEEDED]
        failed += unnamed() + decide.not_in_the_model()
    answers = []
    # A process for each task: z3 answers the same whatever was asked before.
    with multiprocessing.Pool(os.cpu_count(), maxtasksperchild=1) as pool:
        for (f, *args), answer in zip(tasks, pool.imap(work, tasks, chunksize=1)):
            if f is followed:
                run, (came, words) = RUNS[args[0]][1], answer
                answers.append(answer)
                if came != run.expected:
                    failed.append(f"{run.name}: {run.what}: {came}, and {run.expected} was expected")
                if len(runs) < len(RUNS):
                    print(f"{run.name}: {run.what}: {came} {words}")
            else:
                failed += [f"{STAGES[args[0]].name}: {w}" if f is proved else w for w in answer]
    if command == "results" and not failed:
        (HERE / "results.txt").write_text("\n".join(rows(answers)) + "\n")
        (HERE / "decide.txt").write_text(decide.grid())
    if len(runs) == len(RUNS):
        if (HERE / "decide.txt").read_text() != decide.grid():
            failed.append("decide.txt is not what decide.py says: make prove-results")
        for row in list(rows(answers))[:len(STAGES)] if not failed else ():
            print(row)
        print(f"{len(RUNS)} runs, {len(decide.WRITES)} cells of Decide, {time.time() - began:.0f} s")
    for f in failed:
        print("FAILED", f)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
