"""The folder that `diagnose run` puts on PYTHONPATH: Python runs its sitecustomize.py at start."""
