"""What kernels share that keep rows by key, and forget those of a key a while after they last changed."""

from __future__ import annotations

from abc import abstractmethod

import pyarrow as pa

from sqlstream.udfs.kernel import Context, Kernel
from sqlstream.udfs.state.keyed import KeyedState
from sqlstream.udfs.state.living import Living


class ForgettingKernel(Kernel):
    """``ttl``: a key is forgotten so many microseconds of processing time after its rows last changed, and nothing
    comes out of that; 0: never. Its rows are the only state, and their time to live its only timer.
    """

    ttl: int

    @property
    @abstractmethod
    def _stored(self) -> pa.Schema:
        """The rows that are state, with the timer of ``_living``."""

    @property
    def _living(self) -> Living:
        return Living(self.ttl)

    @property
    def uses_processing_time(self) -> bool:
        return self.ttl > 0

    def on_event_time(self, watermark: int, context: Context) -> None:
        raise AssertionError("no timer of event time was set")

    def on_processing_time(self, time: int, context: Context) -> None:
        state = self._state(context)
        self._living.forgotten(state, time)
        self._living.close(state, context)

    def _state(self, context: Context) -> KeyedState:
        return KeyedState(context.store, "rows", self._stored)
