{% materialization snapshot, adapter='sqlstream' %}
  {{ exceptions.raise_compiler_error(
    "snapshot \"" ~ model.name ~ "\" is not executed: a row that has been written is not updated. A stream of changes "
    ~ "keeps what snapshots keep: materialize a streaming_table over a source with a changelog."
  ) }}
{% endmaterialization %}

{% materialization materialized_view, adapter='sqlstream' %}
  {{ exceptions.raise_compiler_error(
    "materialized view \"" ~ model.name ~ "\" is not made by dbt: sqlstream serve keeps materialized views, and its "
    ~ "process has to go on. Materialize the model as streaming_table, whose job dbt starts and upgrades."
  ) }}
{% endmaterialization %}

{% macro sqlstream__create_indexes(relation) -%}
  {%- if config.get('indexes') -%}
    {{ exceptions.raise_compiler_error(
      "indexes of model \"" ~ model.name ~ "\" are not made: files have none. A table of PostgreSQL makes its own, "
      ~ "with the option indexes of its connector."
    ) }}
  {%- endif -%}
{%- endmacro %}
