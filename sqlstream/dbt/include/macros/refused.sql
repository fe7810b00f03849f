{% materialization snapshot, adapter='sqlstream' %}
  {{ exceptions.raise_compiler_error(
    "snapshot \"" ~ model.name ~ "\" is not executed: a row that has been written is not updated. A stream of changes "
    ~ "keeps what snapshots keep: materialize a streaming_table over a source with a changelog."
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
