"""Which lookups are asked at the same time: adjacent ones, of which none needs what another one adds."""

from __future__ import annotations

from sqlstream.planner.nodes import Lookup
from sqlstream.planner.rewriting import columns_of


def together(node: Lookup) -> tuple[Lookup, ...]:
    """The lookups that are asked with ``node``, from the lowest up to it; one that defers is alone."""
    group = [node]
    while not node.options.defers and isinstance(below := group[-1].input, Lookup) and not below.options.defers:
        added = {output.name for output in below.outputs}
        if any(columns_of(key.expression) & added for lookup in group for key in lookup.keys):
            break
        group.append(below)
    return tuple(reversed(group))
