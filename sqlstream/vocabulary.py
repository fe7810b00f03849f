"""What a session has to choose from while one types: its catalog, settings, connectors and their options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlstream import connectors
from sqlstream.options import Option
from sqlstream.planner.catalog import Catalog
from sqlstream.planner.completion import Known
from sqlstream.settings import OPTIONS
from sqlstream.workspace import Workspace


@dataclass(frozen=True)
class SessionVocabulary:
    """The words that completion suggests in a session. Options with a ``#`` in their key are left out."""

    workspace: Workspace

    @property
    def catalog(self) -> Catalog:
        """The catalog of the session."""
        return self.workspace.catalog

    def settings(self) -> Mapping[str, Known]:
        """A dictionary from the key of each setting to what completion shows for it: the possible values and a
        description.
        """
        return _known(OPTIONS)

    def connectors(self) -> Sequence[str]:
        """The names of all connectors."""
        return connectors.names()

    def options(self, connector: str) -> Mapping[str, Known]:
        """Returns a dictionary from the key of each option of a connector to what completion shows for it (the possible
        values and a description); empty for an unknown connector.
        """
        kind = connectors.find_connector(connector)
        return {} if kind is None else _known(kind.known_options)


def _known(options: Iterable[Option]) -> dict[str, Known]:
    return {o.key: Known(o.kind.words, _detail(o)) for o in options if not o.is_pattern}


def _detail(option: Option) -> str:
    if option.required:
        return f"{option.kind.name}, required"
    return option.kind.name if option.default is None else f"{option.kind.name}, {option.default}"
