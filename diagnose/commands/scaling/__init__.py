"""Scaling of a job with its GPUs: from runs at several sizes, predict other sizes with a range."""
