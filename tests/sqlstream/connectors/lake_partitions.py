"""Values of partition columns whose texts are not what their types make one think of."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

EARLY = datetime(1969, 12, 31, 23, 59, 59, 999999)

OF_ANY_TYPE = [
    ("INT", -5, "-5", 5),
    ("BOOLEAN", True, "true", False),
    ("DECIMAL(10, 2)", Decimal("-1.50"), "-1.5", Decimal("1.50")),
    ("TIMESTAMP", EARLY.replace(tzinfo=UTC), "1969-12-31 23:59:59.999999", datetime(2024, 1, 1, tzinfo=UTC)),
    ("DOUBLE", float("nan"), "NaN", -1.5),
]
"""Types, values, their texts in PARTITION (…), and other values."""
