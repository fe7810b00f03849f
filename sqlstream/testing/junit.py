"""Results as JUnit XML, which systems of continuous integration show."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from sqlstream.testing.report import Result, Verdict

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML can hold."""


def write_junit(path: Path, results: Sequence[Result]) -> None:
    """A suite for each file or folder; refused cases and those that differ on purpose are skipped ones."""
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
