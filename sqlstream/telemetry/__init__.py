"""What jobs report to the outside: metrics, traces, logs and lineage.

``instruments`` is the registry of all metrics; the Prometheus endpoint, OTLP, the dashboard, the alerts and the page of
the documentation are made from it. ``observing`` chooses the observers of a job by the settings.
"""
