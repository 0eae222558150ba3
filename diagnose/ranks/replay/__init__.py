"""All ranks of a job replayed together."""
