"""The table formats of lakes, by name: how to open the versions of a table, and its files on other machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlstream.connectors.lakes.versions import LakeSettings, VersionLog

if TYPE_CHECKING:
    import pyarrow as pa


def log_of(settings: LakeSettings) -> VersionLog:
    """Opens the table of the settings. ConnectorError SS545 where it cannot be read, SS577 without the library."""
    if settings.format == "iceberg":
        from sqlstream.connectors.lakes.iceberg_log import IcebergLog

        return IcebergLog(settings)
    from sqlstream.connectors.lakes.delta_log import DeltaLog

    return DeltaLog(settings)


@dataclass(frozen=True)
class StoredFiles:
    """Opens data files that are not on this machine, by their location in ``FileDetails``."""

    settings: LakeSettings

    def __call__(self, location: str) -> pa.NativeFile:
        if self.settings.format == "iceberg":
            from sqlstream.connectors.lakes import iceberg_columns

            return iceberg_columns.open_data_file(self.settings, location)
        from sqlstream.connectors.lakes import delta_columns

        return delta_columns.open_data_file(self.settings, location)
