"""Late ranks: which rank the others wait for, since when, and why."""
