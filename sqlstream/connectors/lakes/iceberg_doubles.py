"""DOUBLEs in the metadata of Iceberg tables, which a version of the library reads with the precision of FLOATs.

They are the values of partitions. A reader would take the rounded value for that of the rows, and a commit, which lists
the files of others again, would write it for all engines.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.avro.decoder import BinaryDecoder

_NO_FLOAT = 0.1
"""A number that a FLOAT does not have."""


@cache
def read_doubles_exactly() -> None:
    """Replaces how the library reads DOUBLEs of Avro, in this process, unless it reads them as they are."""
    from pyiceberg.avro import STRUCT_DOUBLE
    from pyiceberg.avro.decoder import new_decoder
    from pyiceberg.avro.reader import DoubleReader

    if new_decoder(STRUCT_DOUBLE.pack(_NO_FLOAT)).read_double() == _NO_FLOAT:
        return

    def read(self: DoubleReader, decoder: BinaryDecoder) -> float:
        number: float = STRUCT_DOUBLE.unpack(decoder.read(8))[0]
        return number

    DoubleReader.read = read  # type: ignore[method-assign]
