"""Syntax nodes: statements and streaming clauses as frozen data that know their own text.

Expressions and queries inside them are sqlglot trees, treated as immutable. A node compares by content; spans do
not take part. Names keep the spelling of the user; lookups ignore case. Clauses are attached to sqlglot's trees as
follows (see ``grammar.trees``):

* ``StreamClauses`` of a SELECT: ``clauses_of(select)``
* ``TableFunction`` (TUMBLE, …, process functions) as a table factor: ``table_function_of(table)``
* ``AlignBarriers``, ``LookupAsync``, ``WatermarkDelay``, ``TableHint`` of a table: ``table_clauses_of(table)``
* ``MatchRecognize`` of a SELECT: ``match_recognize_of(select)``; its alias is the ``alias`` of the carrier
"""

from sqlstream.grammar.nodes.alterations import (
    AddElements,
    AlterCatalog,
    AlterDatabase,
    AlterFunction,
    AlterMaterializedView,
    AlterTable,
    AlterView,
    ChangeDistribution,
    ChangePartitions,
    Compact,
    DropColumns,
    DropElement,
    ExpireSnapshots,
    ModifyElements,
    Partition,
    PlacedElement,
    RenameColumn,
    RenameTo,
    ResetOptions,
    RetypeColumn,
    SetComment,
    SetOptions,
    TableChange,
)
from sqlstream.grammar.nodes.definitions import (
    Column,
    ComputedColumn,
    CreateCatalog,
    CreateDatabase,
    CreateFunction,
    CreateMaterializedView,
    CreateTable,
    CreateView,
    Distribution,
    Drop,
    FunctionDefinition,
    FunctionParameter,
    LikeOption,
    LikeTable,
    MetadataColumn,
    NamedColumn,
    PartitionValue,
    PhysicalColumn,
    PrimaryKey,
    TableElement,
    WatermarkDef,
)
from sqlstream.grammar.nodes.node import Name, Node, Option, Sql
from sqlstream.grammar.nodes.statements import (
    CheckpointJob,
    CompilePlan,
    Describe,
    DescribeQuery,
    ExecutePlan,
    Explain,
    Insert,
    NameFilter,
    Query,
    Reset,
    SavepointJob,
    Set,
    Show,
    StatementSet,
    StopJob,
    Truncate,
    UnitRows,
    UnitTest,
    Use,
)
from sqlstream.grammar.nodes.tables import (
    AlignBarriers,
    Cache,
    LookupAsync,
    LookupOrder,
    MatchRecognize,
    Measured,
    Pattern,
    PatternAlternation,
    PatternDefinition,
    PatternRepetition,
    PatternSequence,
    PatternVariable,
    Retry,
    TableClauses,
    TableHint,
    WatermarkDelay,
)
from sqlstream.grammar.nodes.windows import (
    Accumulation,
    AfterProcessingTime,
    AfterSilence,
    AfterWatermark,
    Argument,
    Combinator,
    Combined,
    CountWindow,
    DeltaEvictor,
    DeltaTrigger,
    Descriptor,
    Domain,
    Duration,
    Emit,
    EmitKind,
    EveryInterval,
    EveryRows,
    Evict,
    GlobalWindow,
    GroupWindow,
    KeepLast,
    LateAction,
    LateData,
    Measure,
    Never,
    OnBarrier,
    Pulse,
    Purging,
    RowCount,
    StreamClauses,
    TableArgument,
    TableFunction,
    Trigger,
    TriggerExpr,
    UserCall,
    UserEvictor,
    UserTrigger,
    UserWindow,
    When,
    WindowClause,
    WindowKind,
)

Statement = (
    CreateTable | CreateView | CreateMaterializedView | CreateFunction | CreateCatalog | CreateDatabase | Drop
    | AlterTable | AlterView | AlterMaterializedView | AlterFunction | AlterDatabase | AlterCatalog | Truncate | Insert
    | StatementSet | UnitTest | Query | Explain
    | Show | Describe | DescribeQuery | StopJob | CheckpointJob | SavepointJob | Set | Reset | Use | CompilePlan
    | ExecutePlan
)  # fmt: skip

__all__ = [
    "Accumulation", "AddElements", "AfterProcessingTime", "AfterSilence", "AfterWatermark", "AlignBarriers",
    "AlterCatalog", "AlterDatabase", "AlterFunction", "AlterMaterializedView", "AlterTable", "AlterView",
    "Argument", "Cache", "ChangeDistribution", "ChangePartitions", "CheckpointJob", "Column", "Combinator",
    "Combined", "Compact", "CompilePlan", "ComputedColumn", "CountWindow", "CreateCatalog", "CreateDatabase",
    "CreateFunction", "CreateMaterializedView", "CreateTable", "CreateView", "DeltaEvictor", "DeltaTrigger",
    "Describe", "DescribeQuery", "Descriptor", "Distribution", "Domain", "Drop", "DropColumns", "DropElement",
    "Duration", "Emit", "EmitKind", "EveryInterval", "EveryRows", "Evict", "ExecutePlan",
    "ExpireSnapshots", "Explain",
    "FunctionDefinition", "FunctionParameter", "GlobalWindow", "GroupWindow", "Insert", "KeepLast",
    "LateAction", "LateData", "LikeOption", "LikeTable", "LookupAsync", "LookupOrder", "MatchRecognize",
    "Measure", "Measured", "MetadataColumn", "ModifyElements", "Name", "NameFilter", "NamedColumn", "Never",
    "Node", "OnBarrier", "Option", "Partition", "PartitionValue", "Pattern", "PatternAlternation",
    "PatternDefinition", "PatternRepetition", "PatternSequence", "PatternVariable", "PhysicalColumn",
    "PlacedElement", "PrimaryKey", "Pulse", "Purging", "Query", "RenameColumn", "RenameTo", "Reset",
    "ResetOptions", "Retry", "RetypeColumn", "RowCount", "SavepointJob", "Set", "SetComment", "SetOptions",
    "Show", "Sql", "Statement", "StatementSet", "StopJob", "StreamClauses", "TableArgument", "TableChange",
    "TableClauses", "TableElement", "TableFunction", "TableHint", "Trigger", "TriggerExpr", "Truncate",
    "UnitRows", "UnitTest", "Use", "UserCall", "UserEvictor", "UserTrigger", "UserWindow", "WatermarkDef",
    "WatermarkDelay", "When", "WindowClause", "WindowKind",
]  # fmt: skip
