"""An updating result on a terminal: one table that changes in place, and stays when the query is interrupted."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pexpect
import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.spark
@pytest.mark.long  # a process with a Spark of its own; tests/sqlstream/shell/test_result_modes.py draws the table
def test_the_table_of_an_updating_result_changes_in_place(tmp_path):
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
    script = tmp_path / "counts.sql"
    script.write_text(
        "CREATE TABLE ticks (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '10');\n"
        "SELECT n % 1 AS one, COUNT(*) AS c FROM ticks GROUP BY n % 1;\n"
    )
    mode = ["--set", "sql-client.execution.result-mode=table", "--master", "local[1]"]
    terminal = pexpect.spawn(
        sys.executable, ["-m", "sqlstream", "run", *mode, str(script)], cwd=ROOT, env=environment, timeout=120,
        encoding="utf-8", dimensions=(40, 120),
    )  # fmt: skip
    try:
        terminal.expect(r"one \| +c.*\(1 row\)")
        terminal.expect(r"\x1b\[1A")  # the cursor goes up again
        terminal.sendintr()
        terminal.expect(r" 0 \| +\d+\r\n\(1 row\)")  # what the table was at the end
        terminal.expect("stopped after its last complete micro-batch")
        terminal.expect(pexpect.EOF)
    finally:
        terminal.close(force=True)
