"""The table formats of lakes, by name: how to open the versions of a table, and its files on other machines."""

from __future__ import annotations

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


def open_file(settings: LakeSettings, location: str) -> pa.NativeFile:
    """Opens a data file that is not on this machine. ``location``: as in ``FileDetails``."""
    if settings.format == "iceberg":
        from sqlstream.connectors.lakes.iceberg_columns import open_data_file

        return open_data_file(settings, location)
    from sqlstream.connectors.lakes.delta_columns import file_system

    return file_system(settings.location, settings.storage).open_input_file(location)
