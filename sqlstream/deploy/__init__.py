"""What runs scripts for good: the files of a deployment, for each target made from the same ``Deployment``."""
