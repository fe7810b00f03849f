"""What has become of jobs that were struck, and whether what they have said of it is clear."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.running import Fleet, Told

_CODE = re.compile(r"(SS\d{3}): ")
_GENERAL = "SS400"
"""The code of what nobody has words for."""
NO_FAULT = "none"
"""What stands for the time before the first strike: a machine with too much to do makes jobs fail, too."""
_MOST_FAILURES = 3
"""So many failures in a row without a new epoch are no recovery."""
_TOO_MUCH_TO_DO = "has not started in time"
"""But those of a machine with too much to do: Spark waits 10 s for a Python process."""


@dataclass
class Struck:
    """What one fault has done to one job. ``tried``: strikes before its end. ``refused`` are messages with which a
    start refused a damaged checkpoint, ``failed`` those of other failures, ``unclear`` those without a code of their
    own, or without the name of the damaged file."""

    tried: int = 0
    refused: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Cut:
    """A file of a checkpoint that has been cut off while ``epoch`` was the newest; ``kept`` is the whole one."""

    file: Path
    kept: Path
    epoch: int

    def names(self, message: str) -> bool:
        """Whether a message names the file; checksums that do not fit are told of their file."""
        name = self.file.name
        checked = name[1:].removesuffix(".crc") if name.endswith(".crc") else name
        return str(self.file.with_name(checked)) in message

    def undo(self) -> None:
        shutil.copy2(self.kept, self.file)


class Records:
    """What is known of each job, by kind, and of each fault that has struck it. ``fault`` is the latest one."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.fault = NO_FAULT
        self.states: dict[str, str] = dict.fromkeys(fleet.kinds, "asked")
        self.cuts: dict[str, Cut] = {}
        self._struck: dict[tuple[str, str], Struck] = {}
        self._in_a_row: dict[str, tuple[int, int]] = {}

    def of(self, kind: str, fault: str) -> Struck:
        return self._struck.setdefault((kind, fault), Struck())

    @property
    def struck(self) -> Mapping[tuple[str, str], Struck]:
        """By kind and fault."""
        return self._struck

    @property
    def living(self) -> list[str]:
        """The kinds whose jobs have neither come to their end nor been given up."""
        return [kind for kind, state in self.states.items() if state not in ("finished", "stuck")]

    def in_state(self, *states: str) -> list[str]:
        return [kind for kind, state in self.states.items() if state in states]

    def begin(self, fault: str) -> None:
        """A strike."""
        self.fault = fault
        for kind in self.living:
            self.of(kind, fault).tried += 1
            self._in_a_row.pop(kind, None)

    def hear(self, told: Told) -> None:
        if self.states[told.kind] == "stuck":
            return
        self.states[told.kind] = "running" if told.state == "restarting" else told.state
        if told.state == "failed":
            self._failed(told)
        elif told.state == "restarting":
            self._note(told)

    def stuck(self, kind: str, why: str) -> None:
        self.states[kind] = "stuck"
        self.of(kind, self.fault).unclear.append(why)

    def _failed(self, told: Told) -> None:
        self._note(told)
        if _TOO_MUCH_TO_DO in told.message:
            return
        epoch = self.fleet.epoch(told.kind)
        before, times = self._in_a_row.get(told.kind, (epoch, 0))
        times = times + 1 if before == epoch else 1
        self._in_a_row[told.kind] = epoch, times
        if times > _MOST_FAILURES:
            self.stuck(told.kind, f"does not recover: {told.message.splitlines()[0]}")

    def _note(self, told: Told) -> None:
        """A refusal gets the file back."""
        actual, message = self.of(told.kind, self.fault), told.message
        with (self.fleet.folder / "messages.txt").open("a") as file:
            file.write(f"--- {told.kind}, {self.fault}, start {self.fleet.starts}\n{message}\n")
        code, cut = _CODE.match(message), self.cuts.pop(told.kind, None)
        if cut is not None and self.fleet.epoch(told.kind) <= cut.epoch:
            named = code is not None and cut.names(message)
            (actual.refused if named else actual.unclear).append(f"{cut.file.name}: {message}")
            cut.undo()
        elif code is None or code[1] == _GENERAL:
            actual.unclear.append(message)
        else:
            actual.failed.append(message)
