"""A training job before it runs: its memory and time on GPUs that are only named."""
