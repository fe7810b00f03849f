"""Values of rows in tests: from what people and JSON write to what Arrow takes, and back.

Times are milliseconds since the epoch, ``datetime`` (without a zone: UTC) or text (``00:00:10`` is on 1970-01-01).
Rows come out as plain Python values: TIMESTAMP as ``datetime`` without a zone, in UTC; DECIMAL as ``Decimal``;
ARRAY as list, MAP as dict, STRUCT as dict by field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from sqlstream.types import DataType

Time = int | str | datetime

_EPOCH = datetime(1970, 1, 1)


def to_ms(time: Time) -> int:
    """Milliseconds since the epoch of a time as ``watermark`` and ``processing_time`` take it."""
    if isinstance(time, int):
        return time
    return int(since_epoch(time) / timedelta(milliseconds=1))


def since_epoch(time: Time) -> timedelta:
    """The distance to the epoch, exact to the microsecond."""
    if isinstance(time, bool) or not isinstance(time, int | str | datetime):
        raise TypeError(f"a time is milliseconds, a datetime or a text, not {time!r}")
    if isinstance(time, int):
        return timedelta(milliseconds=time)
    moment = _moment(time) if isinstance(time, str) else time
    return (moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment) - _EPOCH


def _moment(text: str) -> datetime:
    on_first_day = text[2:3] == ":"
    return datetime.fromisoformat(f"1970-01-01 {text}" if on_first_day else text)


def to_arrow(value: Any, kind: DataType) -> Any:
    """``value`` as ``pyarrow.array`` takes it for ``kind.to_arrow()``; TypeError or ValueError if it does not fit."""
    if value is None:
        return None
    convert = _CONVERTERS.get(kind.name)
    if convert is None:
        raise TypeError(f"tests cannot write values of type {kind}")
    return convert(value, kind)


def _integer(value: Any, kind: DataType) -> int:
    if isinstance(value, bool) or int(value) != value:
        raise TypeError(f"{value!r} is not a value of type {kind}")
    return int(value)


def _boolean(value: Any, kind: DataType) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is not a value of type {kind}")
    return value


def _string(value: Any, kind: DataType) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a value of type {kind}")
    return value


def _binary(value: Any, kind: DataType) -> bytes:
    return value if isinstance(value, bytes) else bytes.fromhex(_string(value, kind))


def _decimal(value: Any, kind: DataType) -> Decimal:
    precision, scale = kind.args
    assert isinstance(precision, int) and isinstance(scale, int)
    try:
        number = Decimal(str(value)).quantize(Decimal(1).scaleb(-scale), context=Context(prec=precision))
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise TypeError(f"{value!r} is not a value of type {kind}")
    return number


def _date(value: Any, kind: DataType) -> date:
    return value if isinstance(value, date) else date.fromisoformat(_string(value, kind))


def _timestamp(value: Any, kind: DataType) -> int:
    """Microseconds since the epoch, which no year limits."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value * 1000
    return since_epoch(value) // timedelta(microseconds=1)


def _array(value: Any, kind: DataType) -> list[Any]:
    return [to_arrow(v, _argument(kind, 0)) for v in value]


def _map(value: Any, kind: DataType) -> list[tuple[Any, Any]]:
    pairs = value.items() if isinstance(value, Mapping) else value
    return [(to_arrow(k, _argument(kind, 0)), to_arrow(v, _argument(kind, 1))) for k, v in pairs]


def _struct(value: Any, kind: DataType) -> dict[str, Any]:
    members = members_of(kind)
    values = [value[name] for name, _ in members] if isinstance(value, Mapping) else list(value)
    return {name: to_arrow(v, t) for (name, t), v in zip(members, values, strict=True)}


_CONVERTERS: dict[str, Callable[[Any, DataType], Any]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INT", "BIGINT"), _integer),
    **dict.fromkeys(("FLOAT", "DOUBLE"), lambda value, kind: float(value)),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_NTZ"), _timestamp),
    "BOOLEAN": _boolean,
    "STRING": _string,
    "BINARY": _binary,
    "DECIMAL": _decimal,
    "DATE": _date,
    "ARRAY": _array,
    "MAP": _map,
    "STRUCT": _struct,
}


def _argument(kind: DataType, index: int) -> DataType:
    argument = kind.args[index]
    assert isinstance(argument, DataType)
    return argument


def element_of(kind: DataType) -> DataType:
    """The type of an ARRAY's elements."""
    return _argument(kind, 0)


def entry_of(kind: DataType) -> tuple[DataType, DataType]:
    """The types of a MAP's keys and values."""
    return _argument(kind, 0), _argument(kind, 1)


def members_of(kind: DataType) -> list[tuple[str, DataType]]:
    """Names and types of a STRUCT's fields."""
    return [member for member in kind.args if isinstance(member, tuple)]


def from_arrow(value: Any, kind: DataType) -> Any:
    """A value of ``pyarrow``'s ``to_pylist`` as tests see it."""
    if value is None:
        return None
    match kind.name:
        case "TIMESTAMP":
            return value.astimezone(UTC).replace(tzinfo=None)
        case "ARRAY":
            return [from_arrow(v, element_of(kind)) for v in value]
        case "MAP":
            pairs: Sequence[tuple[Any, Any]] = value
            key, entry = entry_of(kind)
            return {from_arrow(k, key): from_arrow(v, entry) for k, v in pairs}
        case "STRUCT":
            return {name: from_arrow(value[name], t) for name, t in members_of(kind)}
        case _:
            return value
