"""Mutated texts by seed, one after the other, and what came of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from random import Random

from tests.fuzz.examine import Outcome, examine
from tests.fuzz.minimise import minimised
from tests.fuzz.mutation import mutated
from tests.fuzz.seeds import Seed, seeds


@dataclass
class Group:
    """Findings that are alike: the first text, as small as it gets, and how many there were."""

    text: str
    details: str
    number: int
    times: int = 1


@dataclass
class Campaign:
    """``kinds`` counts outcomes, ``groups`` collects findings by their name. ``on_group`` is told of the first of a
    name as soon as it is there."""

    seed: int
    on_group: Callable[[str, Group], object] | None = None
    texts: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    groups: dict[str, Group] = field(default_factory=dict)

    def run(self, texts: int | None = None, minutes: float | None = None, first: int = 0) -> None:
        """Try so many texts, or for so long."""
        end = time.monotonic() + minutes * 60 if minutes is not None else None
        for number, seed in random_texts(self.seed, first):
            if (texts is not None and self.texts >= texts) or (end is not None and time.monotonic() > end):
                return
            self.texts += 1
            outcome = examine(seed.text, seed.workspace)
            self.kinds[outcome.kind] += 1
            self._collect(number, seed, outcome)

    def _collect(self, number: int, seed: Seed, outcome: Outcome) -> None:
        for name, details in outcome.findings:
            if name in self.groups:
                self.groups[name].times += 1
                continue
            text = minimised(seed.text, lambda t, name=name: name in dict(examine(t, seed.workspace).findings))  # type: ignore[misc]
            details = dict(examine(text, seed.workspace).findings).get(name, details)
            self.groups[name] = Group(text, details, number)
            if self.on_group is not None:
                self.on_group(name, self.groups[name])


def random_texts(seed: int, first: int = 0) -> Iterator[tuple[int, Seed]]:
    """Endless texts; each depends on the seed and its own number alone."""
    originals = seeds()
    others = [s.text for s in originals]
    for number in count(first):
        random = Random(f"{seed}/{number}")
        original = random.choice(originals)
        yield number, Seed(mutated(original.text, others, random), original.workspace)
