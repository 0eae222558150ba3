"""Judge dumps of torch's flight recorder: which rank is missing at which call, or calls something else."""
