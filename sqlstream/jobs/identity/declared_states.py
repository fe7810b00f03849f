"""The declared states of process functions, as text that is compared when a job goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlstream.jobs.identity.fingerprint import Declared
from sqlstream.udfs.process.function import State, states_of

if TYPE_CHECKING:
    from sqlstream.jobs.lifecycle.runtime import Sources


def declared_states(sources: Sources) -> Declared:
    """The states by function, as in ``seen MapState of STRING, BIGINT with a time to live``, of any length."""

    def text(name: str) -> str:
        function = sources.function(name)
        assert function is not None, f'the binder has seen "{name}"'
        implementation: Any = sources.implementation(function)
        return ", ".join(map(_text, states_of(implementation))) or "none"

    return text


def _text(state: State[Any]) -> str:
    types = ", ".join(str(kind) for kind in (state.key_type, state.type) if kind is not None)
    return f"{state.name} {type(state).__name__} of {types}" + (" with a time to live" if state.ttl_ms else "")
