"""The upgrade of running jobs to changed scripts: what of their state carries over, the exchange, and the way back."""
