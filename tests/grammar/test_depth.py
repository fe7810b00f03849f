"""Room for deep recursion: nothing is paid where it is not needed, and nothing of the process is left changed."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest

from sqlstream.errors import BindError, ParseError
from sqlstream.grammar import depth
from sqlstream.grammar.depth import on_deep_stack, run_on_deep_stack

_LEVELS = 20_000
_name = ContextVar("name", default="nobody")


@on_deep_stack
def _levels(count: int) -> int:
    return 0 if count == 0 else 1 + _levels(count - 1)


def _frames(count: int) -> int:
    return 0 if count == 0 else 1 + _frames(count - 1)


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = sys.getrecursionlimit(), threading.stack_size(), threading.active_count()
    yield
    assert (sys.getrecursionlimit(), threading.stack_size(), threading.active_count()) == before


def test_recursion_goes_on_in_a_large_stack():
    assert run_on_deep_stack(lambda: _frames(_LEVELS)) == _LEVELS
    assert _levels(1000) == 1000


def test_what_is_not_deep_runs_once_and_where_it_is_asked():
    seen = []
    assert run_on_deep_stack(lambda: seen.append(threading.current_thread())) is None
    assert seen == [threading.current_thread()]


def test_inside_a_large_stack_there_is_no_other_one():
    actual = run_on_deep_stack(
        lambda: (_frames(_LEVELS), run_on_deep_stack(threading.current_thread), threading.current_thread())
    )
    assert actual[1] is actual[2] is not threading.current_thread()


def test_errors_and_context_cross_the_threads():
    def wrong() -> None:
        _frames(_LEVELS)
        raise BindError("SS201", _name.get())

    _name.set("somebody")
    with pytest.raises(BindError, match="somebody"):
        run_on_deep_stack(wrong)


def test_too_deep_is_an_error_of_the_statement(monkeypatch):
    monkeypatch.setattr(depth, "_STACKS", (8 << 20,))
    with pytest.raises(ParseError, match="nested too deeply") as raised:
        on_deep_stack(_frames)(_LEVELS)
    assert raised.value.code == "SS107"


def test_a_smaller_stack_does_where_the_system_gives_no_large_one(monkeypatch):
    monkeypatch.setattr(depth, "_STACKS", (1 << 62, 64 << 20))
    assert run_on_deep_stack(lambda: _frames(_LEVELS)) == _LEVELS


def test_several_threads_at_once():
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda: results.append(run_on_deep_stack(lambda: _frames(_LEVELS)))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [_LEVELS] * 8


_ENDS_WHILE_ANOTHER_IS_DEEP = """
import sys, threading
from sqlstream.grammar.depth import run_on_deep_stack

deep, ended, raised, end = (threading.Event() for _ in range(4))
results = []

def frames(count, then=lambda: 0):
    return 1 + frames(count - 1, then) if count else then()

def first():
    frames(20_000)
    raised.set()
    end.wait()

def second():
    deep.set()
    ended.wait()
    return frames(100)

one = threading.Thread(target=run_on_deep_stack, args=(first,))
other = threading.Thread(target=lambda: results.append({call}))
one.start()
raised.wait()
other.start()
deep.wait()
end.set()
one.join()
ended.set()
other.join()
run_on_deep_stack(int)
print(results, sys.getrecursionlimit())
"""


@pytest.mark.parametrize(
    "call", ["run_on_deep_stack(lambda: frames(15_000, second))", "frames(15_000, second)"], ids=["ours", "another's"]
)
def test_the_limit_is_put_back_only_when_no_thread_is_deeper(call):
    """Python ends the process otherwise: "Cannot recover from stack overflow"."""
    script = _ENDS_WHILE_ANOTHER_IS_DEEP.replace("{call}", call)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == ("[15100] 1000\n", 0), done.stderr


def test_a_call_that_begins_while_the_limit_is_raised_runs_in_a_large_stack():
    names: list[str] = []

    def first() -> None:
        _frames(_LEVELS)
        other = threading.Thread(
            target=run_on_deep_stack, args=(lambda: names.append(threading.current_thread().name),)
        )
        other.start()
        other.join()

    run_on_deep_stack(first)
    assert names == ["sqlstream-deep"]
