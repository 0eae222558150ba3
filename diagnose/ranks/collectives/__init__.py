"""The same collective on every rank: the fields of a call, which calls belong together, and the clocks they align."""
