"""Errors of Spark about a query as diagnostics: located in the script, with a code of ours where there is one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from sqlstream.errors import Diagnostic, ExecutionError, SqlStreamError
from sqlstream.jobs.lifecycle.failure import job_error
from sqlstream.planner.batch import SparkText
from sqlstream.planner.catalog import View
from sqlstream.planner.functions.calls import hint_for
from sqlstream.planner.lowering.context import too_deep_for_spark
from sqlstream.planner.suggestions import did_you_mean

REFUSED = "SS602"

_CODE = re.compile(r"\[([A-Z_]+)(?:\.([A-Z_]+))?\] (.*?)(?: SQLSTATE: \w+.*)?$", re.MULTILINE)
_PLACE = re.compile(r"== SQL[^\n]*\(line (\d+), position (\d+)\) ==\n(?:[^\n]*\n)*? *(\^+)", re.MULTILINE)
_SYNTAX = re.compile(r"\(line (\d+), pos (\d+)\)")
_NAME = re.compile(r"`((?:[^`]|``)+)`")


def refused(error: Exception, text: SparkText, views: Iterable[View], functions: Iterable[str]) -> SqlStreamError:
    """The mistake for which Spark does not run the query: SS201, SS203, SS204, SS206, SS219, or SS602 in its words."""
    deep = too_deep_for_spark(str(error))
    if deep is not None:
        return SqlStreamError.of([deep])
    return SqlStreamError.of([_placed(_mistake(error, functions), error, text, views)])


def failed(error: BaseException, text: SparkText, views: Iterable[View]) -> SqlStreamError:
    """Why a query failed that had begun."""
    failure = job_error(error, None, "")
    if not isinstance(error, Exception) or isinstance(error, SqlStreamError):
        return failure
    placed = _placed(failure.diagnostic, error, text, views)
    by_spark = _CODE.search(str(error))
    if placed.code == "SS400" and by_spark is not None:
        placed = replace(placed, message=_sentence(by_spark[3]))
    return ExecutionError.of([placed])


# --- what is wrong --------------------------------------------------------------------------------------------


def _mistake(error: Exception, functions: Iterable[str]) -> Diagnostic:
    match = _CODE.search(str(error))
    if match is None:
        return Diagnostic(REFUSED, f"Spark refuses the query: {str(error).strip().splitlines()[0]}")
    explain = _KNOWN.get(match[1])
    given = _parameters(error)
    if explain is not None and (known := explain(given, match[3], functions)) is not None:
        return known
    return Diagnostic(REFUSED, f"Spark refuses the query: {_sentence(match[3])}")


def _parameters(error: Exception) -> Mapping[str, str]:
    ask: Any = getattr(error, "getMessageParameters", None)
    return (ask() if ask is not None else None) or {}


def _sentence(text: str) -> str:
    """A message of Spark's without its full stop."""
    return text.strip().rstrip(".")


def _parts(text: str) -> list[str]:
    return [name.replace("``", "`") for name in _NAME.findall(text)]


_NOT_VISIBLE = "The column is not visible in this place; compute the value in a query of FROM."


def _column(given: Mapping[str, str], text: str, functions: Iterable[str]) -> Diagnostic | None:
    names = _parts(given.get("objectName", ""))
    if not names:
        return None
    in_table = f' in "{names[-2]}"' if len(names) > 1 else ""
    proposed = [parts for proposal in given.get("proposal", "").split(", ") if (parts := _parts(proposal))]
    same = [".".join(parts) for parts in proposed if parts[-1].casefold() == names[-1].casefold()]
    if not same:
        hint = did_you_mean(names[-1], [parts[-1] for parts in proposed], "nearest columns")
    else:
        hint = _NOT_VISIBLE if ".".join(names) in same else f"Write {' or '.join(same)}."
    return Diagnostic("SS201", f'column "{names[-1]}" does not exist{in_table}', hint=hint)


def _routine(given: Mapping[str, str], text: str, functions: Iterable[str]) -> Diagnostic | None:
    names = _parts(given.get("routineName", ""))
    hint = hint_for(names[-1], functions) if names else None
    return Diagnostic("SS203", f'function "{names[-1]}" does not exist', hint=hint) if names else None


def _ambiguous(given: Mapping[str, str], text: str, functions: Iterable[str]) -> Diagnostic | None:
    names = _parts(given.get("name", ""))
    listed = re.findall(r"`[^`]+`(?:\.`[^`]+`)*", given.get("referenceNames", ""))
    tables = list(dict.fromkeys(".".join(_parts(candidate)) for candidate in listed))
    hint = f"Write {' or '.join(tables)}." if len(tables) > 1 else None
    return Diagnostic("SS204", f'column "{names[-1]}" is ambiguous', hint=hint) if names else None


def _types(given: Mapping[str, str], text: str, functions: Iterable[str]) -> Diagnostic | None:
    return Diagnostic("SS206", _sentence(text.partition("due to data type mismatch: ")[2] or text))


def _widths(given: Mapping[str, str], text: str, functions: Iterable[str]) -> Diagnostic | None:
    if "firstNumColumns" not in given or "invalidNumColumns" not in given:
        return None
    widths = f"{given['firstNumColumns']} and {given['invalidNumColumns']}"
    return Diagnostic("SS219", f"{given.get('operator', 'UNION')} needs equally many columns: {widths}")


_KNOWN: Mapping[str, Callable[[Mapping[str, str], str, Iterable[str]], Diagnostic | None]] = {
    "UNRESOLVED_COLUMN": _column,
    "UNRESOLVED_ROUTINE": _routine,
    "AMBIGUOUS_REFERENCE": _ambiguous,
    "DATATYPE_MISMATCH": _types,
    "NUM_COLUMNS_MISMATCH": _widths,
}


# --- where it is ----------------------------------------------------------------------------------------------


def _placed(diagnostic: Diagnostic, error: Exception, text: SparkText, views: Iterable[View]) -> Diagnostic:
    """The diagnostic with its place in the script, or in the text of the view that the query goes through."""
    where = _range(error, text.text)
    fragment = text.part_at(*where) if where is not None else None
    if fragment is None:
        return diagnostic
    if fragment.view is None:
        return replace(diagnostic, span=fragment.span)
    view = next((v for v in views if v.name == fragment.view), None)
    if view is None or not view.text:
        return replace(diagnostic, detail=f'In view "{fragment.view}".')
    return replace(diagnostic, span=fragment.span, source=view.text, detail=f'In view "{view.name}".')


def _range(error: Exception, text: str) -> tuple[int, int] | None:
    """The characters of Spark's text that it speaks of."""
    ask: Any = getattr(error, "getQueryContext", None)
    contexts = (ask() if ask is not None else None) or []
    for context in contexts:
        start, stop = _asked(context, "startIndex"), _asked(context, "stopIndex")
        if isinstance(start, int) and isinstance(stop, int) and 0 <= start <= stop < len(text):
            return start, stop + 1
    shown = _PLACE.search(str(error))
    if shown is not None:
        start = _offset(text, int(shown[1]), int(shown[2]) - 1)
        return start, start + len(shown[3])
    syntax = _SYNTAX.search(str(error))
    if syntax is not None:
        start = _offset(text, int(syntax[1]), int(syntax[2]))
        return start, min(start + 1, len(text))
    return None


def _asked(context: Any, name: str) -> object:
    try:
        return getattr(context, name)()
    except Exception:  # contexts of DataFrames have no place
        return None


def _offset(text: str, line: int, position: int) -> int:
    lines = text.split("\n")
    return sum(len(before) + 1 for before in lines[: line - 1]) + position
