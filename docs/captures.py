"""Pictures of the shell, of a failing test and of the demo that moves: ``make captures``.

Sessions run in a terminal of 80 and one of 200 columns, and what its screen shows is written into ``captures/``, as
text and as SVG. Each is made anew, so times and numbers in them differ from run to run.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pexpect
import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

ROOT = Path(__file__).parent.parent
FOLDER = Path(__file__).with_name("captures")
WIDTHS = (80, 200)
LINES = 28
_LIMIT_S = 300

_TABLE = (
    "CREATE TABLE clicks (user_id BIGINT, price DOUBLE, at TIMESTAMP(3), WATERMARK FOR at AS at) WITH ("
    "'connector' = 'datagen', 'rows-per-second' = '50', 'fields.user_id.min' = '1', 'fields.user_id.max' = '6', "
    "'fields.price.min' = '1', 'fields.price.max' = '9');"
)
_COUNTS = "SELECT user_id, COUNT(*) AS clicks, ROUND(SUM(price), 1) AS spent FROM clicks GROUP BY user_id;"
_GOLDEN = """\
statement
CREATE TABLE sales (shop STRING, amount DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'test')

# late rows are left out
stream
SELECT shop, window_end, SUM(amount) AS revenue
FROM TUMBLE(TABLE sales, DESCRIPTOR(ts), INTERVAL '1' MINUTE) GROUP BY shop, window_start, window_end
----
> sales  north  1.5  00:00:30
> sales  north  1.25  00:00:40  |  south  2.5  00:00:50
> watermark sales 00:00:59.999
+I north  00:01:00  1.5
+I south  00:01:00  2.5
"""


class Terminal:
    """A program and the screen that it writes on."""

    def __init__(
        self, arguments: list[str], width: int, folder: Path, environment: Mapping[str, str], module: str = "sqlstream"
    ) -> None:
        self.screen = pyte.Screen(width, LINES)
        self._stream = pyte.Stream(self.screen)
        variables = {**os.environ, "TERM": "xterm-256color", "PROMPT_TOOLKIT_NO_CPR": "1", "PYTHONPATH": str(ROOT)}
        self._program = pexpect.spawn(
            sys.executable, ["-m", module, *arguments], cwd=folder, env={**variables, **environment},
            dimensions=(LINES, width), encoding="utf-8",
        )  # fmt: skip

    def type(self, keys: str) -> None:
        self._program.send(keys)

    def wait(self, shown: str | Callable[[str], bool], rest_s: float = 0.5) -> None:
        """Until the screen shows it, an expression or what a function says, and so much longer."""
        is_there = shown if callable(shown) else lambda text: re.search(shown, text, re.MULTILINE) is not None
        end = time.monotonic() + _LIMIT_S
        while not is_there(self.text):
            if time.monotonic() > end:
                raise TimeoutError(f"the screen does not show {shown!r}:\n{self.text}")
            self._read(0.2)
        end = time.monotonic() + rest_s
        while time.monotonic() < end:
            self._read(0.1)

    def wait_for_end(self) -> None:
        while self._read(1):
            continue

    def _read(self, seconds: float) -> bool:
        """False at the end of the program."""
        try:
            self._stream.feed(self._program.read_nonblocking(65536, seconds))
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        return True

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    def close(self) -> None:
        self._program.close(force=True)


def styled(screen: pyte.Screen) -> Text:
    """The screen with its colours, without empty lines at the end."""
    lines = []
    for number in range(screen.lines):
        cells = screen.buffer[number]
        line = Text()
        for column in range(screen.columns):
            cell = cells[column]
            line.append(cell.data, _style(cell))
        lines.append(line)
    while lines and not lines[-1].plain.strip():
        lines.pop()
    return Text("\n").join(lines)


def _style(cell: pyte.screens.Char) -> Style:
    return Style(
        color=_colour(cell.fg), bgcolor=_colour(cell.bg), bold=cell.bold, italic=cell.italics,
        underline=cell.underscore, reverse=cell.reverse,
    )  # fmt: skip


def _colour(name: str) -> str | None:
    """As rich spells it: names, and six digits."""
    if name == "default":
        return None
    if re.fullmatch(r"[0-9a-fA-F]{6}", name):
        return f"#{name}"
    return {"brown": "yellow"}.get(name, name.replace("bright", "bright_"))


def svg_of(screen: pyte.Screen, title: str) -> str:
    console = Console(record=True, width=screen.columns, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(styled(screen), soft_wrap=True)
    return console.export_svg(title=title, unique_id=re.sub(r"\W", "-", title))


@dataclass(frozen=True)
class Album:
    """Where the pictures of one width go."""

    width: int
    folder: Path

    def take(self, terminal: Terminal, name: str) -> None:
        self.folder.mkdir(exist_ok=True)
        stem = f"{name}-{self.width}"
        (self.folder / f"{stem}.txt").write_text(f"{terminal.text}\n", encoding="utf-8")
        (self.folder / f"{stem}.svg").write_text(f"{svg_of(terminal.screen, stem)}\n", encoding="utf-8")
        print(f"wrote {stem}")


@contextmanager
def _running(arguments: list[str], width: int, folder: Path, module: str = "sqlstream") -> Iterator[Terminal]:
    home = {"XDG_STATE_HOME": str(folder / ".state"), "XDG_CONFIG_HOME": str(folder / ".config")}
    terminal = Terminal(arguments, width, folder, home, module)
    try:
        yield terminal
    finally:
        terminal.close()


def capture_shell(album: Album, folder: Path) -> None:
    with _running(["shell"], album.width, folder) as shell:
        shell.wait("^sqlstream>")
        shell.type(f"{_TABLE}\r")
        shell.wait("^OK", 0)
        shell.type("SELECT us")
        shell.wait("user_id +BIGINT")
        shell.type(" FROM clicks" + "\x1b[D" * len(" FROM clicks"))
        shell.wait("user_id +BIGINT")
        album.take(shell, "completion")
        shell.type("\x03")
        shell.type("clear\r")
        shell.type("SELECT usr_id FROM clicks;\r")
        shell.wait("HINT: Did you mean")
        album.take(shell, "error")
        shell.type("clear\r")
        shell.type(f"{_COUNTS}\r")
        shell.wait("rows in.*\\(", 5)
        album.take(shell, "table")
        shell.type("\x03")
        shell.wait("^stopped")
        shell.wait("^sqlstream>\\s*\\Z")
        album.take(shell, "cancel")
        shell.type("clear\r")
        shell.type("\\plot clicks BY user_id\r")
        shell.wait("rows in.*\\(", 5)
        album.take(shell, "chart")
        shell.type("\x1a")
        shell.wait("goes on in the background")
        shell.type("\\dj\r")
        shell.wait("RUNNING")
        album.take(shell, "background")
        shell.type("quit\r")
        shell.wait_for_end()


def capture_test(album: Album, folder: Path) -> None:
    (folder / "revenue.golden").write_text(_GOLDEN, encoding="utf-8")
    with _running(["test", "revenue.golden"], album.width, folder) as test:
        test.wait_for_end()
        album.take(test, "failing-test")


def capture_demo(album: Album, folder: Path) -> None:
    with _running(["--seconds", "240"], album.width, folder, "examples.live.demo") as demo:
        demo.wait(r"^best sellers until \d", 0)  # both results have rows: the joined one is sooner
        demo.wait(r"^6\d of 240 s", 0)  # what has waited at the start is read by then
        album.take(demo, "live")
        demo.type("\x03")
        demo.wait_for_end()


SCENES = {"test": capture_test, "shell": capture_shell, "live": capture_demo}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--folder", type=Path, default=FOLDER, help="where the pictures go")
    options.add_argument("--only", choices=SCENES, help="those of one program")
    chosen = options.parse_args()
    for width in WIDTHS:
        for name, capture in SCENES.items():
            if chosen.only in (None, name):
                with tempfile.TemporaryDirectory() as work:
                    capture(Album(width, chosen.folder), Path(work))


if __name__ == "__main__":
    main()
