"""Command: the limits of every known GPU, with their sources."""
