"""How long a user waits for tests: ten golden cases over one view, in a new process, and one more once warm.

``python -m examples.throughput.user_tests`` prints the time of the process, of a case in the middle once the first has
passed, and the processor time: of tests as they run by default, and as streaming queries (``--streaming``).
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CASES = 10
COLD_S, WARM_S = 20.0, 0.3
"""Targets: all cases from a cold start, and one once warm."""

_VIEW = """\
statement
CREATE TABLE sales (shop STRING, amount DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'test')

statement
CREATE VIEW revenue AS SELECT shop, window_end, SUM(amount) AS revenue
FROM TUMBLE(TABLE sales, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY shop, window_start, window_end
"""
_CASE = """
# case {n}
stream
SELECT * FROM revenue
----
> sales  north  {n}.5  00:00:30
> sales  south  2.5  00:00:50
> watermark sales 00:00:59.999
+I north  00:01:00  {n}.5
+I south  00:01:00  2.5
> finish
"""


def main() -> None:
    load = f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"{CASES} cases over one view; load of the machine before: {load}\n")
    print("| | all, from a cold start | one once warm: median | fastest | processor time in all |")
    print("|---|---|---|---|---|")
    for name, options in (("as they run", ()), ("`--streaming`", ("--streaming",))):
        print(_row(name, options))


def _row(name: str, options: tuple[str, ...]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        golden, report = Path(folder, "revenue.golden"), Path(folder, "report.json")
        golden.write_text(_VIEW + "".join(_CASE.format(n=n) for n in range(CASES)), encoding="utf-8")
        before, started = _processor_s(), time.monotonic()
        command = [sys.executable, "-m", "sqlstream", "test", str(golden), "--json", str(report), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        cold, processor = time.monotonic() - started, _processor_s() - before
        seconds = [result["seconds"] for result in json.loads(report.read_text())["results"][1:]]
    warm, fastest = statistics.median(seconds), min(seconds)
    return f"| {name} | {_judged(cold, COLD_S)} | {_judged(warm, WARM_S)} | {fastest:.2f} s | {processor:.1f} s |"


def _judged(seconds: float, target: float) -> str:
    return f"{seconds:.2f} s (≤ {target:g} s: {'holds' if seconds <= target else 'missed'})"


def _processor_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
