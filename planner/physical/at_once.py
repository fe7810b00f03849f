"""Windows that fire in the micro-batch whose rows close them."""

from __future__ import annotations

from dataclasses import replace

from sqlstream.planner.physical.steps import Mark, Operator, Step, WatermarkSource


def firing_at_once(root: Step) -> Step:
    """The steps, in which the exchange of the only watermark tells it to its operator in the same micro-batch, too.
    Unchanged where the watermark that Spark will have in the next one does not follow from the times of one exchange.
    """
    return _told(root) if _has_one_watermark(root) else root


def _has_one_watermark(root: Step) -> bool:
    steps = [*root.walk()]
    others = WatermarkSource.BY_ROWS, WatermarkSource.BY_TICKS
    elsewhere = any(isinstance(step, Mark) and step.watermark_source in others for step in steps)
    ports = [port for step in steps if isinstance(step, Operator) for port in step.ports if port.watermark is not None]
    return len(ports) == 1 and not elsewhere


def _told(step: Step) -> Step:
    below = replace(step, inputs=tuple(map(_told, step.inputs)))
    if not isinstance(below, Operator):
        return below
    watermarks = (None if port.watermark is None else replace(port.watermark, at_once=True) for port in below.ports)
    ports = zip(below.ports, watermarks, strict=True)
    return replace(below, ports=tuple(replace(port, watermark=watermark) for port, watermark in ports))
