"""Modules and objects of users that raise when they are imported or looked at."""

from __future__ import annotations

import functools
import operator
import sys
import typing
from collections.abc import Iterator

import pytest

from sqlstream.errors import ConnectorError
from sqlstream.udfs.functions import describe, describe_function, load


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a new module with the text."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(tmp_path)

    def written(text: str | bytes) -> str:
        (tmp_path / "of_the_user.py").write_bytes(text if isinstance(text, bytes) else text.encode())
        return "of_the_user"

    yield written
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("import sys\nsys.exit(0)", "SystemExit: 0 (of_the_user.py, line 2)"),
        ("raise SystemExit('bye')", "SystemExit: bye (of_the_user.py, line 1)"),
        ("raise GeneratorExit", "GeneratorExit:  (of_the_user.py, line 1)"),
        ("raise ValueError('no luck')", "ValueError: no luck (of_the_user.py, line 1)"),
        ("def f():\n  return f()\nf()", "RecursionError: maximum recursion depth exceeded (of_the_user.py, line 2)"),
        ("def f(:", "SyntaxError: invalid syntax (of_the_user.py, line 1)"),
        (b"x = '\xff'", "SyntaxError: (unicode error) 'utf-8' codec can't decode byte 0xff"),
        ("x = 1\0", "SyntaxError: source code string cannot contain null bytes"),
        (
            "class E(Exception):\n  def __str__(self): raise ValueError\nraise E",
            "E: it has no text (of_the_user.py, line 3)",
        ),
    ],
)
def test_what_a_module_raises_is_told_with_its_line(module, text, detail):
    with pytest.raises(ConnectorError, match='SS552: importing module "of_the_user" failed') as error:
        load(f"{module(text)}:f")
    assert (error.value.diagnostic.detail or "").startswith(detail)


def test_ctrl_c_passes(module):
    with pytest.raises(KeyboardInterrupt):
        load(f"{module('raise KeyboardInterrupt')}:f")


def test_what_a_module_prints_is_no_result(module, capsys):
    load(f"{module('print(1)' + chr(10) + 'def f(): ...')}:f")
    assert capsys.readouterr() == ("", "1\n")


@pytest.mark.parametrize("target", ["a b:f", "a..b:f", ".a:f", "a/b:f", "a\nb:f", "os:", ":f", "os", "", "os;x:f"])
def test_what_is_no_name_of_a_module_is_not_imported(target):
    with pytest.raises(ConnectorError, match="SS551"):
        load(target)


def test_an_attribute_that_raises_is_told(module):
    target = f"{module('def __getattr__(name): raise SystemExit(0)')}:f"
    with pytest.raises(ConnectorError, match=r'SS553: "f" of function "of_the_user:f" does not exist') as error:
        load(target)
    assert "SystemExit: 0 (of_the_user.py, line 1)" in str(error.value)


def test_functions_in_c_that_do_not_tell_their_parameters_are_refused():
    with pytest.raises(ConnectorError, match=r'SS589: function "time:sleep" does not tell its parameters\nHINT: C'):
        describe_function("f", "time:sleep")


@pytest.mark.parametrize("function", [functools.partial(int, "5"), operator.itemgetter(1)])
def test_callables_without_parameters_are_refused(function):
    with pytest.raises(ConnectorError, match=r'SS589: function "m:f" does not tell its parameters'):
        describe("f", function, "m:f")


class Raising:
    def __getattr__(self, name: str) -> object:
        raise RuntimeError("no luck")

    def __call__(self) -> int:
        return 1


def test_an_object_that_raises_when_it_is_looked_at_is_refused():
    with pytest.raises(ConnectorError, match=r'SS588: function "m:f" cannot be looked at') as error:
        describe("f", Raising(), "m:f")
    assert "RuntimeError: no luck (test_user_code.py, line " in (error.value.diagnostic.detail or "")


@pytest.mark.parametrize("method", ["eval", "assign", "on_element", "evict", "accumulate"])
@pytest.mark.parametrize("value", [5, property(lambda self: 1)])
def test_methods_that_are_none_are_refused(method, value):
    with pytest.raises(ConnectorError, match=rf'SS555: "{method}" of class "m:C" is no method'):
        describe("f", type("C", (), {method: value}), "m:C")


@pytest.mark.parametrize("annotation", [[int], {}, Iterator, typing.Iterator, typing.List, 5])  # noqa: UP006
def test_annotations_that_are_no_types_are_no_crash(annotation):
    def function(x: int) -> int:
        return x

    function.__annotations__["return"] = annotation
    with pytest.raises(ConnectorError, match="SS554"):
        describe("f", function, "m:f")
