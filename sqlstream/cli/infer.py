"""``sqlstream infer``: a CREATE TABLE that is proposed from what files or a topic hold."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

import click

from sqlstream.cli.output import working
from sqlstream.inferring.files import sample_of_files
from sqlstream.inferring.proposal import proposed
from sqlstream.inferring.topics import sample_of_topic

_KAFKA = "kafka://"


def infer_command(
    source: str,
    name: str | None,
    format: str | None,  # noqa: A002
    rows: int,
    registry: str | None,
    properties: tuple[str, ...],
) -> None:
    """Prints the statement. ConnectorError SS505, SS577, SS590, SS598 and SS599 where nothing can be seen."""
    if source.startswith(_KAFKA):
        if format is not None and format not in ("csv", "json"):
            raise click.UsageError(f'--format "{format}" is one of files; of messages csv and json can be named')
        with working("looking at messages"):
            sample = sample_of_topic(source, dict(_pairs(properties)), registry, format, rows)
    else:
        for option, given in (("--registry", registry), ("--property", properties)):
            if given:
                raise click.UsageError(f"{option} is of topics, such as {_KAFKA}host:9092/topic")
        sample = sample_of_files(source, format, rows)
    sys.stdout.write(proposed(name or name_of(source), sample))


def _pairs(properties: Iterable[str]) -> Iterable[tuple[str, str]]:
    for pair in properties:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f'--property "{pair}" is no NAME=VALUE')
        yield key.strip().removeprefix("properties."), value


def name_of(source: str) -> str:
    """The name of a table after its file or topic: letters, digits and underscores."""
    path = Path(source.rstrip("/"))
    stem = path.name if source.startswith(_KAFKA) or path.is_dir() else path.name.split(".")[0]
    words = re.sub(r"\W+", "_", stem).strip("_").lower()
    return words if words and not words[0].isdigit() else f"t_{words}".rstrip("_")
