"""The same collective on every rank: what a call is, which calls belong together, and what their clocks say."""
