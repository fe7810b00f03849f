"""Departures that take place now, a file of them each half second: ``python departures.py FOLDER``."""

from __future__ import annotations

import json
import random
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

CARRIERS, ORIGINS = ("UA", "AA", "DL", "B6", "EV"), ("JFK", "LGA", "EWR")


def departure() -> dict[str, object]:
    delay = round(random.gauss(10, 15)) if random.random() > 0.02 else None
    at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    return {"carrier": random.choice(CARRIERS), "origin": random.choice(ORIGINS), "delay": delay, "at": at}


def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    while True:
        name = f"{time.time_ns()}.json"
        (folder / f".{name}").write_text("".join(json.dumps(departure()) + "\n" for _ in range(50)), encoding="utf-8")
        (folder / f".{name}").rename(folder / name)  # a file is there with all of its rows, or not at all
        time.sleep(0.5)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
