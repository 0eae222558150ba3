"""`diagnose run`: a training command in, the same command under the probes and its report out."""
