"""Functions whose Python text stands in CREATE FUNCTION."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

from sqlstream.errors import ConnectorError

NOT_PYTHON = "SS556"


def function_in_place(name: str, parameters: Sequence[str], body: str) -> Callable[..., object]:
    """The function with these parameters, whose body is the text. ConnectorError SS556 where it is no Python.

    Workers get it by value: its module is none that could be imported.
    """
    wrong = next((p for p in parameters if not p.isidentifier()), None)
    if wrong is not None:
        raise ConnectorError(NOT_PYTHON, f'parameter "{wrong}" of function "{name}" is no name in Python')
    text = textwrap.dedent(body.strip("\n")).strip() or "pass"
    code = f"def function({', '.join(parameters)}):\n{textwrap.indent(text, '    ')}\n"
    namespace: dict[str, object] = {"__name__": "sqlstream_function"}
    try:
        exec(compile(code, f"<function {name}>", "exec"), namespace)
    except SyntaxError as error:
        line = (error.lineno or 2) - 1
        message = f'the text of function "{name}" is no Python: {error.msg}'
        hint = "It is the body of a function, as in AS $$ return x + 1 $$."
        raise ConnectorError(NOT_PYTHON, message, detail=f"It is in line {line} of the text.", hint=hint) from error
    function = namespace["function"]
    assert callable(function)
    return function
