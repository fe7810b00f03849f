"""Writes the generated pages of this folder: ``make docs``."""

from __future__ import annotations

import json
from pathlib import Path

from docs import command_line, error_codes, flink_functions, grammar_page, metrics_page, option_tables
from sqlstream.planner import plan_schema


def plan_schema_text() -> str:
    return json.dumps(plan_schema(), indent=1) + "\n"


PAGES = {
    "errors.md": error_codes.page,
    "cli.md": command_line.page,
    "grammar.md": grammar_page.document,
    "connectors.md": option_tables.connectors_page,
    "settings.md": option_tables.settings_page,
    "metrics.md": metrics_page.page,
    "flink_functions.md": flink_functions.page,
    "plan.schema.json": plan_schema_text,
}


def main() -> None:
    for name, page in PAGES.items():
        path = Path(__file__).with_name(name)
        path.write_text(page(), encoding="utf-8")
        print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
