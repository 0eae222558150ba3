"""A training job before it runs: what it takes of memory and time on GPUs that are only named."""
