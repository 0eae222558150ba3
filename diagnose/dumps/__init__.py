"""What torch leaves of a job that hangs or runs out of memory: dumps of its recorders in, an answer out."""
