"""Other engines, and other versions of Spark, in processes and environments of their own.

The environments are made once, where those of ``tests.versions`` are; Spark fetches connectors of lakes from Maven.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Timer
from typing import Any

from tests.versions import Unavailable, environment_with, variables

_SCRIPT = Path(__file__).with_name("session_of_another.py")
_SECONDS = 300.0


class OtherEngine:
    """A process that runs SQL. Unavailable where it cannot be had.

    ``engine`` and ``packages``: those of ``session_of_another``; ``wanted``: what its environment has; ``log``: a file.
    """

    def __init__(self, engine: str, packages: str, wanted: Sequence[str], log: Path) -> None:
        folder = environment_with(wanted[0].replace("==", "-"), "3.11", wanted)
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [folder / "bin/python", _SCRIPT, engine, packages], env=variables(), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        try:
            self.run({}, [], "SELECT 1")
        except EOFError as error:
            self.close()
            raise Unavailable(f"{wanted[0]} does not start with {packages}: {error}") from None

    def run(self, settings: Mapping[str, str], statements: Sequence[str], query: str = "") -> list[tuple[Any, ...]]:
        """Runs statements in a session with these settings. Returns the rows of the query."""
        assert self._process.stdin is not None and self._process.stdout is not None
        request = {"settings": dict(settings), "statements": list(statements), "query": query}
        timer = Timer(_SECONDS, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            raise EOFError(self._log.read_text(errors="replace")[-2000:])
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return [tuple(row) for row in answer["rows"]]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
