"""A training command run under the probes: the command, the folder it leaves, and what a machine can capture."""
