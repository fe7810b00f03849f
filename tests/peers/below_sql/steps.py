"""Steps of a case below SQL, one after the other, and what drivers say about them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from sqlstream.testing.cases import Different, NotDriven

Step = dict[str, Any]


def play(steps: Iterable[Step], perform: Callable[[Step], None]) -> None:
    """Carry the steps out; ``Different`` names the one after which something was not as expected."""
    for index, step in enumerate(steps):
        try:
            perform(step)
        except Different as different:
            raise Different(f"after step {index}: {different}") from different


def unknown_step(step: Step) -> NotDriven:
    return NotDriven(f'the step "{step["op"]}" is none of this mechanism', "The README of the cases lists the steps.")


def check(what: str, expected: object, got: object) -> None:
    if got != expected:
        raise Different(f"{what}: expected {json.dumps(expected)}, got {json.dumps(got)}")
