"""What files hold: records of CSV and JSON as text, and the columns that Parquet, ORC, Avro and Arrow have in them."""

from __future__ import annotations

from collections.abc import Iterator
from glob import glob, has_magic
from itertools import islice
from pathlib import Path

import pyarrow as pa

from sqlstream.connectors.connector import WRONG_COLUMN
from sqlstream.errors import ConnectorError
from sqlstream.formats import compressions
from sqlstream.formats.avro_files import schema_text
from sqlstream.formats.avro_schema import SchemaError
from sqlstream.formats.schema_columns import columns_of_schema, readable
from sqlstream.formats.schema_registry import RegisteredSchema
from sqlstream.inferring.proposal import NO_SAMPLE, Sample
from sqlstream.inferring.texts import form_of
from sqlstream.inferring.types import InferredColumn, columns_of_texts
from sqlstream.types import from_arrow

FORMATS = ("csv", "json", "parquet", "orc", "avro", "arrow")

_BY_SUFFIX = {
    ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet",
    ".orc": "orc", ".avro": "avro", ".arrow": "arrow", ".feather": "arrow",
}  # fmt: skip
_LONGEST = 1 << 20


def sample_of_files(path: str, format: str | None, most: int) -> Sample:  # noqa: A002
    """What is seen of a file, a directory or a pattern: of records of text ``most`` at most.

    ConnectorError SS590 where there is nothing to see, SS505 where a file cannot be read or has no columns.
    """
    files = _files(path)
    first = files[0]
    chosen = format or _format_of(first)
    if chosen is None:
        names = ", ".join(FORMATS)
        hint = f"Name the format: --format with one of {names}."
        raise ConnectorError(WRONG_COLUMN, f'the name of "{first}" does not say what its format is', hint=hint)
    try:
        return _of_text(path, files, chosen, most) if chosen in ("csv", "json") else _of_columns(path, files, chosen)
    except (pa.ArrowException, OSError, SchemaError, UnicodeDecodeError) as error:
        hint = "Look whether the file is whole, or name another format with --format."
        raise ConnectorError(WRONG_COLUMN, f'"{first}" cannot be read as {chosen}: {error}', hint=hint) from None


def _files(path: str) -> list[Path]:
    given = Path(path)
    if given.is_dir():
        found = (f for f in given.rglob("*") if f.is_file() and not any(
            part.startswith(("_", ".")) for part in f.relative_to(given).parts))  # fmt: skip
    else:
        found = (Path(name) for name in (glob(path, recursive=True) if has_magic(path) else [path]))  # noqa: PTH207
    files = sorted(f for f in found if f.is_file() and f.stat().st_size)
    if not files:
        exists = given.exists() or has_magic(path)
        message = f'"{path}" has no files with content' if exists else f'there is no file "{path}"'
        hint = "Give a file, a directory, a pattern such as 'data/*.json', or kafka://host:9092/topic."
        raise ConnectorError(NO_SAMPLE, message, hint=hint)
    return files


def _format_of(path: Path) -> str | None:
    name = Path(path.stem) if compressions.is_compressed(str(path)) else path
    return _BY_SUFFIX.get(name.suffix.lower())


def _options(path: str, format: str) -> dict[str, str]:  # noqa: A002
    return {"connector": "filesystem", "path": path, "format": format}


# --- texts ------------------------------------------------------------------------------------------------------


def _of_text(path: str, files: list[Path], format: str, most: int) -> Sample:  # noqa: A002
    records = list(islice(_lines(files[0]), most))
    if not records:
        raise ConnectorError(NO_SAMPLE, f'"{files[0]}" has no records', hint="Name a file that has some.")
    form = form_of(records, headers=True, format=format)
    if form.format != format:
        hint = "Look whether it is whole, or name another format with --format."
        raise ConnectorError(WRONG_COLUMN, f'"{files[0]}" is no {format}: {records[0][:60]}', hint=hint)
    columns, options = _with_partitions(path, files[0], list(form.columns), _options(path, format))
    count = len(records) - ("csv.header" in form.options)
    seen = f'{count:,} {"record" if count == 1 else "records"} of "{files[0]}"'
    return Sample(columns, {**options, **form.options}, seen, notes=form.notes)


def _lines(path: Path) -> Iterator[str]:
    with compressions.opened(str(path)) as file:
        rest = b""
        while data := file.read(_LONGEST):
            *lines, rest = (rest + data).split(b"\n")
            yield from _texts(lines)
        yield from _texts([rest])


def _texts(lines: list[bytes]) -> Iterator[str]:
    texts = (line.decode("utf-8-sig").rstrip("\r") for line in lines)
    return (text for text in texts if text.strip())


def _with_partitions(
    path: str, file: Path, columns: list[InferredColumn], options: dict[str, str]
) -> tuple[list[InferredColumn], dict[str, str]]:
    """The columns and options with those of directories such as ``day=2024-01-31``."""
    if not Path(path).is_dir():
        return columns, options
    pairs = [part.split("=", 1) for part in file.relative_to(path).parts[:-1] if "=" in part]
    if not pairs:
        return columns, options
    made = columns_of_texts([name for name, _ in pairs], [[value for _, value in pairs]])
    known = {name for name, _ in pairs}
    kept = [column for column in columns if column.name not in known]
    return [*kept, *made], {**options, "partition-by": ",".join(name for name, _ in pairs)}


# --- files with a schema ----------------------------------------------------------------------------------------


def _of_columns(path: str, files: list[Path], format: str) -> Sample:  # noqa: A002
    if format == "avro":
        kinds = columns_of_schema(RegisteredSchema(0, schema_text(str(files[0]))))
    else:
        kinds = [(field.name, from_arrow(readable(field.type))) for field in _arrow_schema(files[0], format)]
    unknown = [name for name, kind in kinds if any(part.is_unknown for part in kind.parts())]
    notes = tuple(f'"{name}" has a type that no column has, and is left out.' for name in unknown)
    columns = [InferredColumn(name, kind, False, ()) for name, kind in kinds if name not in unknown]
    given, options = _with_partitions(path, files[0], columns, _options(path, format))
    return Sample(given, options, f'the schema of "{files[0]}"', notes=notes)


def _arrow_schema(path: Path, format: str) -> pa.Schema:  # noqa: A002
    match format:
        case "parquet":
            import pyarrow.parquet

            return pyarrow.parquet.read_schema(path)
        case "orc":
            import pyarrow.orc

            return pyarrow.orc.ORCFile(path).schema
    with pa.OSFile(str(path)) as file:
        try:
            return pa.ipc.open_file(file).schema
        except pa.ArrowInvalid:
            file.seek(0)
            return pa.ipc.open_stream(file).schema
