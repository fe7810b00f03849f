{% macro sqlstream__create_table_as(temporary, relation, sql) -%}
  {%- set contract = config.get('contract') -%}
  {%- if contract and contract.enforced -%}
    {{ get_assert_columns_equivalent(sql) }}
  {%- endif -%}
  {{- adapter.require_finished(sql, model.config.materialized | default('table')) -}}
  {{ config.get('sql_header', '') }}
  {%- if temporary %}
  create or replace temporary table {{ relation }} with ('connector' = 'memory') as
  {%- else %}
  create table {{ relation }} {{ adapter.with_options(relation, config.get('options')) }} as
  {%- endif %}
  {{ sql }}
{%- endmacro %}

{% macro sqlstream__create_view_as(relation, sql) -%}
  {%- set contract = config.get('contract') -%}
  {%- if contract and contract.enforced -%}
    {{ get_assert_columns_equivalent(sql) }}
  {%- endif -%}
  {{ config.get('sql_header', '') }}
  create view {{ relation }} as
  {{ sql }}
{%- endmacro %}

{% macro sqlstream__current_timestamp() -%}
  CURRENT_TIMESTAMP
{%- endmacro %}

{% macro sqlstream__get_binding_char() %}{{ return('?') }}{% endmacro %}

{% macro sqlstream__get_batch_size() %}{{ return(1000000) }}{% endmacro %}  {# a table of files takes one INSERT #}

{% macro sqlstream__create_csv_table(model, agate_table) %}
  {%- set column_override = model['config'].get('column_types', {}) -%}
  {%- set quote_seed_column = model['config'].get('quote_columns', None) -%}
  {% set sql %}
    create table {{ this.render() }} (
      {%- for col_name in agate_table.column_names -%}
        {%- set type = column_override.get(col_name, adapter.convert_type(agate_table, loop.index0)) -%}
        {{ adapter.quote_seed_column((col_name | string), quote_seed_column) }} {{ type }}
        {%- if not loop.last -%}, {%- endif -%}
      {%- endfor -%}
    ) {{ adapter.with_options(this, config.get('options')) }}
  {% endset %}
  {% call statement('_') -%}{{ sql }}{%- endcall %}
  {{ return(sql) }}
{% endmacro %}

{% macro sqlstream__load_csv_rows(model, agate_table) %}
  {%- set column_override = model['config'].get('column_types', {}) -%}
  {% set cols_sql = get_seed_column_quoted_csv(model, agate_table.column_names) %}
  {% set statements = [] %}
  {% for chunk in agate_table.rows | batch(get_batch_size()) %}
    {% set bindings = [] %}
    {% for row in chunk %}{% do bindings.extend(row) %}{% endfor %}
    {% set sql %}
      insert into {{ this.render() }} ({{ cols_sql }}) values
      {% for row in chunk -%}
        ({%- for column in agate_table.column_names -%}
          {%- set type = column_override.get(column, adapter.convert_type(agate_table, loop.index0)) -%}
          cast({{ get_binding_char() }} as {{ type }}){%- if not loop.last %}, {% endif -%}
        {%- endfor -%}){%- if not loop.last %}, {% endif -%}
      {%- endfor %}
    {% endset %}
    {% do adapter.add_query(sql, bindings=bindings, abridge_sql_log=True) %}
    {% if loop.index0 == 0 %}{% do statements.append(sql) %}{% endif %}
  {% endfor %}
  {{ return(statements[0]) }}
{% endmacro %}

{% macro sqlstream__get_delete_insert_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) -%}
  {%- set columns = get_quoted_csv(dest_columns | map(attribute='name')) -%}
  {%- set keys = [] if unique_key is none else ([unique_key] if unique_key is string else unique_key) -%}
  insert overwrite {{ target }}
  select {{ columns }} from {{ target }} as dbt_target
  {%- if keys %}
  where not exists (
    select 1 from {{ source }} as dbt_source
    where {% for key in keys %}dbt_source.{{ adapter.quote(key) }} = dbt_target.{{ adapter.quote(key) }}
      {%- if not loop.last %} and {% endif %}{% endfor %}
  )
  {%- endif %}
  {%- if incremental_predicates %}
  {{ 'or' if keys else 'where' }} not ({{ incremental_predicates | join(') and (') }})
  {%- endif %}
  union all
  select {{ columns }} from {{ source }}
{%- endmacro %}

{# A table of files takes the rows of one job, so appending writes it anew as well. #}
{% macro sqlstream__get_incremental_append_sql(arguments) %}
  {% do return(sqlstream__get_delete_insert_merge_sql(
    arguments['target_relation'], arguments['temp_relation'], none, arguments['dest_columns'], none
  )) %}
{% endmacro %}

{% macro sqlstream__get_incremental_default_sql(arguments) %}
  {% if arguments['unique_key'] %}
    {% do return(get_incremental_delete_insert_sql(arguments)) %}
  {% endif %}
  {% do return(get_incremental_append_sql(arguments)) %}
{% endmacro %}
