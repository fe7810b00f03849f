"""The backend of Ibis, which must be installed: ``pip install 'sqlstream[ibis]'``.

``ibis.sqlstream.connect()`` opens it. Ibis finds it by its entry point; nothing else of the product imports this room.
"""

from __future__ import annotations

from sqlstream.ibis.backend import Backend

__all__ = ["Backend"]
