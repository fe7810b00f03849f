"""Sources of messages that others send: each is on disk before its sender learns that it was received.

For connectors of other packages: ``MessageSource`` is a source with a format and a spool, ``Receiver`` what gets its
messages.
"""

from sqlstream.connectors.receiving.receiver import Inbox, Lost, Patience, Receiver
from sqlstream.connectors.receiving.source import RECONNECT_OPTIONS, MessageSource, Metadata
from sqlstream.connectors.receiving.spool import Message

__all__ = ["RECONNECT_OPTIONS", "Inbox", "Lost", "Message", "MessageSource", "Metadata", "Patience", "Receiver"]
