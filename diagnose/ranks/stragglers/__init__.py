"""Which rank the others wait for, since when, and for what."""
