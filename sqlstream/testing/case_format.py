"""Case files: a script, steps of rows and clocks, and the expected output, as JSON.

Values of TIMESTAMP are milliseconds since the epoch, those of DECIMAL are strings. Steps:
``{"rows": table, "values": [[…], …]}`` (also ``"kind"``; or ``"file"``, JSON lines below the root of the cases, with
``"kinds": true`` where each line starts with its kind), ``{"watermark": table, "ms": n}``, ``{"processing_time": n}``,
``{"checkpoint": true}``, ``{"restart": true}``, ``{"finish": true}``.

Cases of the level ``kernel`` have no script: ``input`` and ``config`` drive a mechanism below SQL.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

Values = list[Any]


class CaseFormatError(ValueError):
    """The error of a malformed case file; the message says what is wrong."""


@dataclass(frozen=True)
class CaseRows:
    """The step that inserts rows into one table, in arrival order, each with its kind."""

    table: str
    rows: tuple[tuple[str, Values], ...]


@dataclass(frozen=True)
class Watermark:
    """The step in which the watermark of a table reaches ``ms``, in milliseconds since 1970."""

    table: str
    ms: int


@dataclass(frozen=True)
class ProcessingTime:
    """The step in which processing time reaches ``ms``, in milliseconds since 1970."""

    ms: int


@dataclass(frozen=True)
class Checkpoint:
    """The step that ends a micro-batch, and makes a checkpoint."""


@dataclass(frozen=True)
class Restart:
    """The step that stops the query and continues from its newest checkpoint."""


@dataclass(frozen=True)
class Finish:
    """The step that ends the input: watermarks go to infinity."""


Step = CaseRows | Watermark | ProcessingTime | Checkpoint | Restart | Finish


@dataclass(frozen=True)
class Changes:
    """What a case expects of the emitted rows: ``rows`` are those that the query emits after the previous expectation
    of the same table, up to and including step number ``after`` (from 0). The first value of each row is its kind, such
    as +I.

    ``table`` is the table of a side output or an INSERT; None: the query's own output. ``columns`` names the columns
    that are compared; None: all.
    """

    after: int
    rows: list[Values]
    ordered: bool
    table: str | None = None
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True)
class State:
    """What a case expects of the result at step number ``after`` (from 0): ``rows`` are the current rows when all
    changes so far are applied.

    ``key``: the columns by which a change replaces an earlier row; ``*`` or None: a retraction removes one equal row.
    """

    after: int
    rows: list[Values]
    key: tuple[str, ...] | str | None


@dataclass(frozen=True)
class Case:
    """A test case as read from a JSON file: an SQL script, the steps of its input, and the output that is expected.

    ``error`` says in words which error is expected, if the script or a step must be refused; else None. A case of
    ``level`` "kernel" has no SQL: ``input`` and ``config`` drive a part of the engine directly.
    """

    id: str
    level: str
    script: str
    steps: tuple[Step, ...]
    expected: tuple[Changes | State, ...]
    error: str | None
    late_dropped: int | None
    lookup_tries_max: int | None = None
    category: str = ""
    input: tuple[dict[str, Any], ...] = ()
    """Steps of a case below SQL, each with what is expected of it; ``config`` has their parameters."""
    config: dict[str, Any] = field(default_factory=dict)
    results: tuple[Any, ...] = ()
    """What comes out of these steps altogether, where it is not expected of each."""
    outcome: dict[str, Any] = field(default_factory=dict)
    """What holds of these steps, by name, where it is told neither of each nor by what comes out."""
    why: str | None = None
    """Why another outcome than the expected one is right, where the dialect decides otherwise on purpose."""

    @property
    def directory(self) -> str:
        """The folder of the case's file, relative to the root folder of all cases."""
        return self.id.rpartition("/")[0]


_DESCRIPTIVE = {"id", "source", "license", "checked", "category", "description", "level", "notes", "why"}
_EXPECTATIONS = {"expect", "expect_final", "expect_finals", "expect_state", "error", "late_dropped", "lookup_tries_max"}
_TYPES = {
    **dict.fromkeys(("id", "level", "script", "category", "why", "error"), (str, "text")),
    **dict.fromkeys(("steps", "input", "expect", "expect_finals", "expect_state"), (list, "list")),
    **dict.fromkeys(("config", "expect_final"), (dict, "object")),
    **dict.fromkeys(("late_dropped", "lookup_tries_max"), (int, "number")),
}
_SHOWN = 100
_KNOWN = _DESCRIPTIVE | _EXPECTATIONS | {"script", "steps", "input", "config", "expected"}


def load_case(path: Path, root: Path) -> Case:
    """Reads the case in a file. ``root`` is the folder to which the paths in its ``file`` steps are relative.
    CaseFormatError for a malformed file.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        _check_fields(document)
        steps = tuple(_step(step, root) for step in document.get("steps", ()))
        expected_rows = tuple(_expected(document, len(steps)))
        _check_places((e.after for e in expected_rows), len(steps))
        return Case(
            id=document["id"],
            level=document.get("level", "sql"),
            script=document.get("script", ""),
            steps=steps,
            expected=expected_rows,
            error=document.get("error"),
            late_dropped=document.get("late_dropped"),
            lookup_tries_max=document.get("lookup_tries_max"),
            category=document.get("category", ""),
            why=document.get("why"),
            input=tuple(document.get("input", ())),
            config=document.get("config", {}),
            results=tuple(expected) if isinstance(expected := document.get("expected"), list) else (),
            outcome=expected if isinstance(expected, dict) else {},
        )
    except CaseFormatError:
        raise
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError) as error:
        raise CaseFormatError(f"{type(error).__name__}: {error}") from error


def _check_fields(document: Any) -> None:
    """CaseFormatError where the file is no object, or a field of it is unknown, missing or of another type."""
    if not isinstance(document, dict):
        raise CaseFormatError(f"a case is a JSON object, not {json.dumps(document)[:_SHOWN]}")
    unknown = document.keys() - _KNOWN
    if unknown:
        raise CaseFormatError(f"unknown fields: {', '.join(sorted(unknown))}")
    if "id" not in document:
        raise CaseFormatError('the field "id" is missing')
    for name, (kind, words) in _TYPES.items():
        if name in document and not isinstance(document[name], kind):
            raise CaseFormatError(f'the field "{name}" is {json.dumps(document[name])[:_SHOWN]}, which is no {words}')


def _check_places(numbers: Iterable[Any], steps: int) -> None:
    """CaseFormatError where something is expected after a step that there is not, and would never be compared."""
    for after in numbers:
        if not isinstance(after, int) or after not in range(steps):
            raise CaseFormatError(f'"after" is {json.dumps(after)[:_SHOWN]}, which is no number of a step')


def _step(step: dict[str, Any], root: Path) -> Step:
    match step:
        case {"rows": str(table), "values": list(values), **rest} if rest.keys() <= {"kind"}:
            return CaseRows(table, tuple((rest.get("kind", "+I"), v) for v in values))
        case {"rows": str(table), "file": str(name), **rest} if rest.keys() <= {"kinds"}:
            return CaseRows(table, tuple(_lines(root / name, kinds=rest.get("kinds", False))))
        case {"watermark": str(table), "ms": int(ms)}:
            return Watermark(table, ms)
        case {"processing_time": int(ms)}:
            return ProcessingTime(ms)
        case {"checkpoint": True}:
            return Checkpoint()
        case {"restart": True}:
            return Restart()
        case {"finish": True}:
            return Finish()
        case _:
            raise CaseFormatError(f"unknown step {json.dumps(step)[:100]}")


def _lines(path: Path, *, kinds: bool) -> Iterator[tuple[str, Values]]:
    for line in filter(None, path.read_text(encoding="utf-8").split("\n")):  # texts may have other line ends
        values = json.loads(line)
        yield (values[0], values[1:]) if kinds else ("+I", values)


def _expected(document: dict[str, Any], steps: int) -> Iterator[Changes | State]:
    for e in document.get("expect", ()):
        columns = tuple(e["columns"]) if "columns" in e else None
        yield Changes(e["after"], e["rows"], e.get("order") == "exact", e.get("table"), columns)
    final = [document["expect_final"]] if "expect_final" in document else []
    for e in (*document.get("expect_finals", ()), *document.get("expect_state", ()), *final):
        key = tuple(e["key"]) if isinstance(e.get("key"), list) else e.get("key")
        yield State(e.get("after", steps - 1), e["rows"], key)


def case_files(directory: Path) -> list[Path]:
    """All case files (``*.json``) below a directory, sorted by path; if ``directory`` is a file, that one alone."""
    return [directory] if directory.is_file() else sorted(directory.rglob("*.json"))


def cases_root(directory: Path) -> Path:
    """The folder that paths in case files are relative to: ``directory`` or the nearest of its parents that contains a
    README.md.
    """
    start = directory.resolve()
    marked = (p for p in (start, *start.parents) if (p / "README.md").is_file())
    return next(marked, start if start.is_dir() else start.parent)


# --- Comparison of JSON values with the values of a job --------------------------------------------------------


_EPOCH = datetime(1970, 1, 1)
_RELATIVE = 1e-6  # FLOAT has seven digits
_ABSOLUTE = 1e-9


def same_value(expected: Any, got: Any) -> bool:
    """True if a value of a row equals ``expected``, a JSON value: times are milliseconds, decimals are texts, STRUCTs
    are lists or objects.
    """
    if expected is None or got is None:
        return expected is None and got is None
    match got:
        case bool() | str():
            return type(expected) is type(got) and bool(expected == got)
        case float():
            return _close(expected, got)
        case Decimal() | int():
            return _number(expected) == got
        case datetime():
            return bool(expected == (got - _EPOCH) / timedelta(milliseconds=1))
        case date():
            return bool(expected == got.isoformat())
        case bytes():
            return bool(expected == got.hex())
        case Mapping():
            return _same_mapping(expected, got)
        case list() | tuple():
            return isinstance(expected, list) and same_row(expected, got)
        case _:
            return bool(expected == got)


def same_row(expected: Sequence[Any], got: Sequence[Any]) -> bool:
    """Whether a row has the expected values, within the tolerance of its types."""
    return len(expected) == len(got) and all(same_value(e, g) for e, g in zip(expected, got, strict=True))


def _close(expected: Any, got: float) -> bool:
    try:
        number = float(expected)
    except (TypeError, ValueError):
        return False
    both_nan = math.isnan(number) and math.isnan(got)
    return both_nan or math.isclose(number, got, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)


def _number(expected: Any) -> Decimal | None:
    if isinstance(expected, bool) or not isinstance(expected, int | float | str):
        return None
    try:
        return Decimal(str(expected))
    except InvalidOperation:
        return None


def _same_mapping(expected: Any, got: Mapping[Any, Any]) -> bool:
    if isinstance(expected, list):
        return same_row(expected, list(got.values()))
    keys = {str(key): key for key in got}
    return (
        isinstance(expected, Mapping)
        and expected.keys() == keys.keys()
        and all(same_value(value, got[keys[key]]) for key, value in expected.items())
    )


def difference(expected: Sequence[Sequence[Any]], got: Sequence[Sequence[Any]], *, ordered: bool) -> str | None:
    """A sentence that says where two lists of rows first differ; None if they are equal. Without ``ordered`` they are
    compared as multisets.
    """
    if ordered:
        return _ordered_difference(expected, got)
    missing, extra = unmatched(expected, got)
    parts = [f"expected {spelled(missing[0])}"] if missing else ["expected no such row"]
    parts += [f"got {spelled(extra[0])}"] if extra else ["got no such row"]
    more = max(len(missing), len(extra)) - 1
    return None if not missing and not extra else ", ".join(parts) + (f", and {more} more" if more else "")


def _ordered_difference(expected: Sequence[Sequence[Any]], got: Sequence[Sequence[Any]]) -> str | None:
    for i, (e, g) in enumerate(zip(expected, got, strict=False)):
        if not same_row(e, g):
            return f"row {i}: expected {spelled(e)}, got {spelled(g)}"
    if len(expected) > len(got):
        return f"row {len(got)}: expected {spelled(expected[len(got)])}, got no more rows"
    if len(got) > len(expected):
        return f"row {len(expected)}: expected no more rows, got {spelled(got[len(expected)])}"
    return None


def unmatched(
    expected: Iterable[Sequence[Any]], got: Iterable[Sequence[Any]]
) -> tuple[list[Sequence[Any]], list[Sequence[Any]]]:
    """Compares two lists of rows as multisets. Returns a pair: the expected rows that ``got`` lacks, and the rows of
    ``got`` that were not expected.
    """
    missing: list[Sequence[Any]] = []
    left = list(got)
    for row in expected:
        partner = next((i for i, g in enumerate(left) if same_row(row, g)), None)
        if partner is None:
            missing.append(row)
        else:
            left.pop(partner)
    return missing, left


def spelled(row: Sequence[Any]) -> str:
    """A row as JSON text, as case files write it."""
    return json.dumps([_json(value) for value in row], ensure_ascii=False)


def _json(value: Any) -> Any:
    match value:
        case datetime():
            ms = (value - _EPOCH) / timedelta(milliseconds=1)
            return int(ms) if ms.is_integer() else ms
        case bytes():
            return value.hex()
        case Mapping():
            return {str(key): _json(v) for key, v in value.items()}
        case list() | tuple():
            return [_json(v) for v in value]
        case bool() | int() | float() | str() | None:
            return value
        case _:
            return str(value)
