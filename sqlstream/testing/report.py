"""Results of tests: one line each, totals by directory, JSON and JUnit XML."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent


class Verdict(Enum):
    """The outcome of a test: PASS, FAIL, REFUSED (the statement or the case is not supported), or DIFFERS (another
    result than expected, on purpose).
    """

    PASS = "PASS"
    REFUSED = "REFUSED"
    FAIL = "FAIL"
    DIFFERS = "DIFFERS"
    """Not what is expected, on purpose."""


@dataclass(frozen=True)
class Result:
    """The result of a test.

    ``code`` and ``message`` say why it was refused or failed. ``note`` says what a passed test does not verify, or
    gives a hint. ``level`` is "kernel" for a case without SQL. ``title`` is the subject of a test in a golden file.
    ``detail`` is the difference, on several lines.
    """

    id: str
    verdict: Verdict
    message: str = ""
    code: str | None = None
    note: str | None = None
    seconds: float = 0.0
    level: str = "sql"
    title: str = ""
    detail: str = ""

    @property
    def directory(self) -> str:
        """The folder of a case file; for a test that is one of several in a file, the file."""
        if "::" in self.id:
            return self.id.partition("::")[0]
        return self.id.rpartition("/")[0]

    @property
    def below_sql(self) -> bool:
        """True for a case without SQL, which tests a part of an engine."""
        return self.level == "kernel"

    def line(self) -> str:
        """The result as one line."""
        level = "[kernel]" if self.below_sql else None
        note = f"({self.note})" if self.note else None
        words = (self.verdict.value, self.id, level, self.title, self.code, self.message, note)
        return " ".join(word for word in words if word)


@dataclass(frozen=True)
class Summary:
    """The results of all tests of a run, in their order."""

    results: tuple[Result, ...]

    @property
    def failed(self) -> tuple[Result, ...]:
        """The results of tests that fail."""
        return tuple(r for r in self.results if r.verdict is Verdict.FAIL)

    def totals(self) -> dict[str, Counter[Verdict]]:
        """A dictionary from each directory to the numbers of its results by verdict, in the order of the results."""
        counts: dict[str, Counter[Verdict]] = {}
        for result in self.results:
            counts.setdefault(result.directory, Counter())[result.verdict] += 1
        return counts

    def lines(self) -> list[str]:
        """The lines of a text table of the results: their numbers for each directory, and in the last line the sum."""
        totals = self.totals()
        overall = sum(totals.values(), Counter[Verdict]())
        width = max((len(name) for name in totals), default=0)
        head = f"{'':{width}}  " + "  ".join(f"{v.value:>7}" for v in Verdict)
        below = Counter(result.directory for result in self.results if result.below_sql)
        rows = [_row(name.ljust(width), count) + _below_sql(below[name]) for name, count in totals.items()]
        return [head, *rows, f"{_row('total'.ljust(width), overall)}   {sum(r.seconds for r in self.results):.0f} s"]

    def write_json(self, path: Path) -> None:
        """Write totals and results to a file."""
        totals = {name: {v.value: count[v] for v in Verdict} for name, count in self.totals().items()}
        results = [asdict(r) | {"verdict": r.verdict.value, "seconds": round(r.seconds, 3)} for r in self.results]
        text = json.dumps({"totals": totals, "results": results}, indent=1, ensure_ascii=False)
        path.write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace")


def _row(name: str, count: Counter[Verdict]) -> str:
    return f"{name}  " + "  ".join(f"{count[v]:7d}" for v in Verdict)


def _below_sql(count: int) -> str:
    return f"   {count} below SQL" if count else ""


# --- JUnit XML -------------------------------------------------------------------------------------------------


_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML can hold."""


def write_junit(path: Path, results: Sequence[Result]) -> None:
    """Writes the results as JUnit XML, with a suite for each file or folder. REFUSED and DIFFERS are reported as
    skipped tests.
    """
    by_suite: dict[str, list[Result]] = defaultdict(list)
    for result in results:
        by_suite[result.directory].append(result)
    root = Element("testsuites", {"name": "sqlstream test", **_counts(results)})
    for name, members in by_suite.items():
        suite = SubElement(root, "testsuite", {"name": name, **_counts(members)})
        for result in members:
            _add(suite, result)
    indent(root)
    ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _counts(results: Sequence[Result]) -> dict[str, str]:
    verdicts = [result.verdict for result in results]
    skipped = verdicts.count(Verdict.REFUSED) + verdicts.count(Verdict.DIFFERS)
    return {
        "tests": str(len(verdicts)),
        "failures": str(verdicts.count(Verdict.FAIL)),
        "errors": "0",
        "skipped": str(skipped),
        "time": f"{sum(result.seconds for result in results):.3f}",
    }


def _add(suite: Element, result: Result) -> None:
    name = result.id.rpartition("::")[2] + (f" {result.title}" if result.title else "")
    case = SubElement(suite, "testcase", classname=result.directory, name=_plain(name), time=f"{result.seconds:.3f}")
    why = _plain(" ".join(word for word in (result.code, result.message) if word))
    match result.verdict:
        case Verdict.FAIL:
            SubElement(case, "failure", message=why).text = _plain(result.detail)
        case Verdict.REFUSED | Verdict.DIFFERS:
            SubElement(case, "skipped", message=why)


def _plain(text: str) -> str:
    return _NO_XML.sub("�", text)
