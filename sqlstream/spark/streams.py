"""What versions of PySpark lack for streams that are planned in Python."""

from __future__ import annotations

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as SupportsTriggerAvailableNow
except ImportError:  # PySpark 4.1, whose sources in Python know neither triggers nor where a micro-batch starts

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        pass
