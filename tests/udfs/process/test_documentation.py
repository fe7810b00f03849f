"""The examples of the documentation run."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

PAGE = Path(__file__).parents[3] / "docs" / "process_functions.md"


def test_the_worked_examples_run():
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 3
    module = ModuleType("documentation")
    for block in blocks:
        exec(compile(block, str(PAGE), "exec", dont_inherit=True), vars(module))
