"""Arguments of process functions: by name or in the order of the parameters, and the signature that errors show."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream.grammar.nodes import Argument, Descriptor, RowCount, TableArgument, TableFunction
from sqlstream.planner.binder.context import bind_error
from sqlstream.planner.catalog import Function
from sqlstream.planner.suggestions import did_you_mean
from sqlstream.udfs.signature import ProcessSignature

ON_TIME = "on_time"
UID = "uid"


def signature_of(function: Function) -> ProcessSignature:
    assert function.process is not None, f'"{function.name}" is a process function'
    return function.process


def arguments_by_name(call: TableFunction, function: Function) -> dict[str, Argument]:
    """The arguments of a call by parameter. BindError SS260, SS261."""
    signature = signature_of(function)
    names = (*signature.parameters, ON_TIME, UID)
    by_parameter: dict[str, Argument] = {}
    for position, argument in enumerate(call.arguments):
        name = _parameter(argument, position, call, function, names)
        if name in by_parameter:
            raise _wrong(f'argument "{name}" of "{call.name}" is given twice', argument, function)
        by_parameter[name] = argument
    for name in signature.parameters:
        if name not in by_parameter and name not in signature.optional:
            raise bind_error("SS260", f'"{call.name}" needs the argument "{name}"', call.span, expected(function))
    _check_kinds(call, function, by_parameter)
    return by_parameter


def _parameter(
    argument: Argument, position: int, call: TableFunction, function: Function, names: tuple[str, ...]
) -> str:
    if argument.name is None:
        if any(a.name is not None for a in call.arguments[:position]):
            raise _wrong("an argument by position cannot follow a named one", argument, function)
        if position >= len(names):
            raise _wrong(f'"{call.name}" takes at most {len(names)} arguments', argument, function)
        return names[position]
    spellings = {name.casefold(): name for name in names}
    name = spellings.get(argument.name.casefold())
    if name is None:
        hint = " ".join(filter(None, (did_you_mean(argument.name, names, "arguments"), expected(function))))
        raise bind_error("SS260", f'"{call.name}" has no argument "{argument.name}"', argument.span, hint)
    return name


def _check_kinds(call: TableFunction, function: Function, arguments: Mapping[str, Argument]) -> None:
    signature = signature_of(function)
    tables = {table.name for table in signature.tables}
    for name, argument in arguments.items():
        value = argument.value
        is_descriptor = name == ON_TIME or name in signature.descriptors
        wanted = "TABLE t" if name in tables else "DESCRIPTOR(…)" if is_descriptor else "a constant"
        kinds = {"TABLE t": TableArgument, "DESCRIPTOR(…)": Descriptor, "a constant": exp.Expr}
        if not isinstance(value, kinds[wanted]) or isinstance(value, RowCount):
            message = f'argument "{name}" of "{call.name}" must be {wanted}'
            raise bind_error("SS261", message, argument.span, expected(function))


def expected(function: Function) -> str:
    """``Write f(input => TABLE t PARTITION BY k, threshold => BIGINT, [on_time => DESCRIPTOR(ts)], …).``"""
    signature = signature_of(function)
    keys = " PARTITION BY k" if signature.keyed or len(signature.tables) > 1 else ""
    shown = {table.name: f"TABLE t{keys}" for table in signature.tables}
    shown |= dict.fromkeys(signature.descriptors, "DESCRIPTOR(c)")
    shown |= {name: str(kind) for name, kind in function.parameters}
    texts = [f"{name} => {shown[name]}" for name in signature.parameters]
    optional = set(signature.optional)
    texts = [f"[{t}]" if name in optional else t for name, t in zip(signature.parameters, texts, strict=True)]
    texts += ["[on_time => DESCRIPTOR(ts)]", "[uid => 'id']"]
    return f"Write {function.name}({', '.join(texts)})."


def _wrong(message: str, argument: Argument, function: Function) -> Exception:
    return bind_error("SS260", message, argument.span, expected(function))
