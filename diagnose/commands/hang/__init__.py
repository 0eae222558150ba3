"""Dumps of torch's flight recorder: which rank is missing, at which call, or which rank calls something else."""
