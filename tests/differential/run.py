"""Many random queries without Spark: ``python -m tests.differential.run --minutes 10 --seed 0``.

Each finding is printed once for its kind, as small as it gets.
"""

from __future__ import annotations

import argparse
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

from sqlstream.planner.explain.text import plan_tree
from sqlstream.planner.nodes import Insert
from sqlstream.planner.physical import PhysicalPlan
from tests.differential.changes import History, history
from tests.differential.comparing import NoReference, Refused, expected, planned, without_spark
from tests.differential.queries import Query, query
from tests.differential.without_spark import NotHere

HISTORIES = 3


def check(asked: Query, made: PhysicalPlan, past: History, seed: int) -> str | None:
    """What is wrong with a query over a history; None for nothing. NoReference and NotHere pass by."""
    rows = expected(asked, past)
    choice = Random(seed)
    try:
        groups, restarts = choice.choice([1, 3]), choice.choice([None, choice])
        found = without_spark(made, past, groups=groups, restarts=restarts)
    except NotHere:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:300]}\n{traceback.format_exc(limit=-3)}"
    if found != rows:
        return f"missing {dict(rows - found)}, too many {dict(found - rows)}"
    return None


def smaller(asked: Query, made: PhysicalPlan, past: History, seed: int) -> History:
    """The history with as few acts as still give a finding."""
    found: History | None = past
    while found is not None:
        past, found = found, next((shorter for shorter in _shorter(found) if check(asked, made, shorter, seed)), None)
    together = replace(past, cuts=(len(past.acts) * 2 + 1,))
    return together if check(asked, made, together, seed) else past


def _shorter(past: History) -> Iterator[History]:
    size = len(past.acts) // 2
    while size:
        for start in range(0, len(past.acts), size):
            yield replace(past, acts=past.acts[:start] + past.acts[start + size :])
        size //= 2


def told(asked: Query, made: PhysicalPlan, past: History, seed: int, problem: str) -> str:
    lines = [f"=== seed {seed}: {problem}", asked.definitions() + asked.ours(), plan_tree(made.logical)]
    lines += [f"{number}: {batch}" for number, batch in enumerate(past.micro_batches())]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=20, help="findings after which it ends")
    asked = parser.parse_args()
    end, seed, counts, findings = time.monotonic() + 60 * asked.minutes, asked.seed, Counter[str](), 0
    while time.monotonic() < end and findings < asked.most:
        findings += one(seed, counts)
        seed += 1
    print(f"seeds {asked.seed} to {seed - 1}: {dict(counts)}")


def one(seed: int, counts: Counter[str]) -> int:
    choice = Random(seed)
    asked = query(choice)
    counts["queries"] += 1
    try:
        made = planned(asked, by_key=choice if choice.random() < 0.5 else None)
    except Refused as error:
        counts[f"refused {error.code} {error.message.splitlines()[0][:110]}"] += 1
        return 0
    counts["by key"] += isinstance(made.logical, Insert)
    for _ in range(HISTORIES):
        past = history(choice)
        try:
            problem = check(asked, made, past, seed)
        except NoReference as error:
            counts[f"no reference: {str(error)[:110]}"] += 1
            return 0
        except NotHere as error:
            counts[f"not here: {error}"] += 1
            return 0
        if problem is not None:
            past = smaller(asked, made, past, seed)
            problem = check(asked, made, past, seed) or problem
            print(told(asked, made, past, seed, problem), flush=True)
            return 1
        counts["compared"] += 1
    return 0


if __name__ == "__main__":
    main()
