"""The one door of operators to what PySpark keeps to itself, which any version of it may change.

Each function does without what this PySpark lacks, or says that it is lacking; ``PROBES`` lists what there should be.
The functions for a task's state may be called before a worker has the package: ``shipped.py`` sends this module by
value. ``sqlstream/spark/internals.py`` is the door of sessions.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorHandleState

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle
    from pyspark.sql.types import DataType, StructType

_CLIENT = "pyspark.sql.streaming.stateful_processor_api_client.StatefulProcessorApiClient"
_EXCHANGE = (
    "_receive_proto_message", "_send_proto_message", "_serialize_to_bytes", "_deserialize_from_bytes",
    "set_implicit_key",
)  # fmt: skip

PROBES: tuple[tuple[str, str], ...] = (
    *((_CLIENT, name) for name in (*_EXCHANGE, "set_handle_state")),
    ("pyspark.sql.streaming.proto.StateMessage_pb2.StateRequest", "SerializeToString"),
)
"""Classes and their attributes."""


# --- types -----------------------------------------------------------------------------------------------------


def arrow_schema(schema: StructType) -> pa.Schema:
    """Converts a schema to Arrow, with the time zone UTC. Raises PySparkTypeError for types that Arrow lacks."""
    given: dict[str, Any] = {"timezone": "UTC"}
    if "timezone" not in inspect.signature(to_arrow_schema).parameters:
        given = {"timestamp_utc": True}  # PySpark 4.1
    return to_arrow_schema(schema, **given)


def spark_type(kind: pa.DataType) -> DataType:
    """Spark's type for an Arrow type; a timestamp without time zone is TIMESTAMP_NTZ, in every version of PySpark."""
    return from_arrow_type(kind, prefer_timestamp_ntz=True)


# --- a task's state --------------------------------------------------------------------------------------------


def state_client(handle: StatefulProcessorHandle) -> Any:
    """The connection to Spark's state server; None where this PySpark cannot send several requests before the first
    reply.
    """
    client = getattr(handle, "_statefulProcessorApiClient", None)
    complete = client is not None and all(hasattr(client, name) for name in ("sockfile", "key_schema", *_EXCHANGE))
    return client if complete and state_messages() is not None else None


def defer_answers(client: Any, set_key_group: Callable[[Any], None], settle: Callable[[], None]) -> None:
    """Lets a connection to Spark's state server set the current key group by ``set_key_group``, and call ``settle``
    before any other request of PySpark, as all answers must have been read then.
    """
    send = client._send_proto_message

    def send_settled(message: bytes) -> None:
        settle()
        send(message)

    client._send_proto_message, client.set_implicit_key = send_settled, set_key_group


def state_messages() -> Any:
    """The module with the state server's messages; None where this version of PySpark lacks it."""
    try:
        # Loads protobuf, which tasks without rows do without.
        import pyspark.sql.streaming.proto.StateMessage_pb2 as messages
    except ImportError:
        return None
    return messages


def can_declare_late(handle: StatefulProcessorHandle) -> bool:
    """True if a task may declare its state after its start, with ``declared_late``. False if Spark has created it only
    to learn which state the query has, and if this version of PySpark does not show in which of these phases it is.
    """
    client = getattr(handle, "_statefulProcessorApiClient", None)
    before = getattr(client, "handle_state", None)
    return before is StatefulProcessorHandleState.CREATED and hasattr(client, "set_handle_state")


def declared_late(handle: StatefulProcessorHandle, declare: Callable[[StatefulProcessorHandle], Any]) -> Any:
    """Calls ``declare``, which declares state, while Spark is made to believe that the task is still being created.
    Returns its result.
    """
    client: Any = handle._statefulProcessorApiClient
    before = client.handle_state
    client.set_handle_state(StatefulProcessorHandleState.CREATED)
    declared = declare(handle)
    client.set_handle_state(before)
    return declared


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
