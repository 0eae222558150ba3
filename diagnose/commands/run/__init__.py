"""`diagnose run`: run a training command under the probes, and report on it."""
