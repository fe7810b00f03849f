"""Topics of Kafka as DataFrames: of the messages that tasks fetch, of their rows, and of the ranges that say which."""

from __future__ import annotations

import pickle
from base64 import b64encode
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from sqlstream.sources.kafka.offsets import TopicSettings
from sqlstream.sources.kafka.ranges import SETTINGS, WATERMARK, TopicRanges, TopicWatermark
from sqlstream.spark.internals import register_source
from sqlstream.udfs.kafka.fetch import FetchedMessages, LiftedMessages, RowsOfTopics
from sqlstream.udfs.kafka.records import RowsOfMessages, ddl_of_messages
from sqlstream.udfs.kafka.sizes import SizeCounter
from sqlstream.udfs.lifts import LIFT
from sqlstream.udfs.spark.batches import rows_of, shuffle_tasks


def messages_of(
    spark: SparkSession,
    settings: TopicSettings,
    columns: tuple[str, ...],
    *,
    finished: bool,
    watermark: TopicWatermark | None = None,
    sizes: SizeCounter | None = None,
) -> DataFrame:
    """Returns the messages of a table with the given columns (``udfs.kafka.fetched.FIELDS``), and with LIFT if there is
    a ``watermark``, as a streaming DataFrame, or, if ``finished``, as a batch DataFrame. ``sizes`` counts their bytes.
    """
    places = ranges_of_topics(spark, settings, finished=finished, watermark=watermark)
    fetched = FetchedMessages(settings.properties, columns, settings.skips_lost, sizes)
    if watermark is None:
        return places.mapInArrow(rows_of(fetched), ddl_of_messages(columns))
    return places.mapInArrow(rows_of(LiftedMessages(fetched)), ddl_of_messages((*columns, LIFT)))


def rows_of_topics(
    spark: SparkSession,
    settings: TopicSettings,
    columns: tuple[str, ...],
    reader: RowsOfMessages,
    *,
    finished: bool,
    watermark: TopicWatermark | None = None,
    sizes: SizeCounter | None = None,
) -> DataFrame:
    """Returns the rows of messages, which the tasks that fetch them decode with ``reader``; the rest as ``messages_of``
    has it.
    """
    places = ranges_of_topics(spark, settings, finished=finished, watermark=watermark)
    fetched = FetchedMessages(settings.properties, columns, settings.skips_lost, sizes)
    if watermark is None:
        return places.mapInArrow(rows_of(RowsOfTopics(fetched, reader)), reader.ddl)
    lifted = replace(reader, kept=(*reader.kept, LIFT))
    return places.mapInArrow(rows_of(RowsOfTopics(LiftedMessages(fetched), lifted)), lifted.ddl)


def ranges_of_topics(
    spark: SparkSession, settings: TopicSettings, *, finished: bool, watermark: TopicWatermark | None = None
) -> DataFrame:
    """Returns the ranges of offsets (``udfs.kafka.fetch.RANGES``) that tasks fetch, as a streaming DataFrame, or, if
    ``finished``, as a batch DataFrame.
    """
    register_source(spark, TopicRanges)
    reader = spark.read if finished else spark.readStream
    options = {SETTINGS: settings.to_json(), "tasks": str(shuffle_tasks(spark))}
    if watermark is not None:
        options[WATERMARK] = b64encode(pickle.dumps(watermark)).decode()
    return reader.format(TopicRanges.name()).options(**options).load()
