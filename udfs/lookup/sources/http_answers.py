"""Rows out of the JSON that a server answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from zoneinfo import ZoneInfo

from sqlstream.errors import ConnectorError
from sqlstream.types import DataType
from sqlstream.udfs.lookup.source import Key, Request, Row
from sqlstream.udfs.lookup.sources.failures import UNREADABLE, keys_text, wrong_answer
from sqlstream.udfs.lookup.sources.json_path import JsonPath
from sqlstream.udfs.lookup.sources.json_values import from_json


@dataclass(frozen=True)
class AnswerReader:
    """``rows``: where the object or the array of rows stands. ``columns``: where columns stand in a row, of all that
    the request names. ``sent``: the key columns that the request to the server says.
    """

    table: str
    request: Request
    rows: JsonPath
    columns: tuple[tuple[str, JsonPath], ...]
    sent: tuple[str, ...]
    zone: str = "UTC"

    @cached_property
    def _paths(self) -> dict[str, JsonPath]:
        return dict(self.columns)

    @cached_property
    def _kinds(self) -> dict[str, DataType]:
        return dict((*self.request.keys, *self.request.columns))

    @cached_property
    def _zone(self) -> ZoneInfo:
        return ZoneInfo(self.zone)

    def of_key(self, key: Key, document: object) -> list[Row]:
        """The rows of the key. Key columns that the answer lacks have the values that were asked for.

        Rows with other values there are those of another key. SS573, SS576 for what cannot be read.
        """
        return [self._row(key, row) for row in self._objects(document) if self._is_of(key, row)]

    def of_keys(self, keys: Sequence[Key], document: object) -> list[list[Row]]:
        """The rows of each key, by the key columns in the answer; rows of other keys are left out."""
        rows_by_key: dict[Key, list[Row]] = {key: [] for key in keys}
        for row in self._objects(document):
            own = tuple(self._required(keys, row, name) for name, _ in self.request.keys)
            if own in rows_by_key:
                rows_by_key[own].append(self._row(own, row))
        return [rows_by_key[key] for key in keys]

    def _objects(self, document: object) -> list[object]:
        objects = self.rows.found(document)
        if not self.rows.many and len(objects) == 1 and isinstance(objects[0], list):
            objects = objects[0]
        return [row for row in objects if row is not None]

    @cached_property
    def _places(self) -> list[tuple[str, int | None]]:
        """The columns asked for, with their places in the key."""
        in_key = {name: index for index, (name, _) in enumerate(self.request.keys)}
        return [(name, in_key.get(name)) for name, _ in self.request.columns]

    def _row(self, key: Key, row: object) -> Row:
        return tuple(self._value([key], row, n) if index is None else key[index] for n, index in self._places)

    def _is_of(self, key: Key, row: object) -> bool:
        for (name, _), asked in zip(self.request.keys, key, strict=True):
            if name in self.sent and self._paths[name].value(row) is None:
                continue  # the server was asked for it
            if self._required([key], row, name) != asked:
                return False
        return True

    def _required(self, keys: Sequence[Key], row: object, name: str) -> object:
        required = self._value(keys, row, name)
        if required is None:
            what = keys_text(self.request, keys)
            message = f'answer for {what} of table "{self.table}" does not tell the key column "{name}"'
            hint = f"Rows are found by it: let the server answer it, or say where it stands: 'columns.{name}.path'."
            raise ConnectorError(UNREADABLE, message, hint=hint)
        return required

    def _value(self, keys: Sequence[Key], row: object, name: str) -> object:
        path = self._paths[name]
        if path.steps and not isinstance(row, dict | list):
            message = f'answer for {keys_text(self.request, keys)} of table "{self.table}" holds no object for a row'
            raise ConnectorError(UNREADABLE, message, hint="Say with the option path where the rows stand.")
        try:
            return from_json(path.value(row), self._kinds[name], self._zone)
        except ValueError as error:
            raise wrong_answer(self.table, name, keys_text(self.request, keys), str(error)) from None
