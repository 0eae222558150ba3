"""Small training jobs, each slow for one reason: scripts as somebody may have written them, the cure an option."""
