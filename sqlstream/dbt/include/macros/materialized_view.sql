{% materialization materialized_view, adapter='sqlstream' %}
  {%- set target_relation = this.incorporate(type='materialized_view') -%}
  {{ run_hooks(pre_hooks) }}
  {%- set done = adapter.run_view(target_relation, sql, config, should_full_refresh()) -%}
  {% call noop_statement('main', done, done) %}
    {{ sql }}
  {% endcall %}
  {% do persist_docs(target_relation, model) %}
  {{ run_hooks(post_hooks) }}
  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
