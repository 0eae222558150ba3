"""Readers of large traces, their runs, and the report of how long they take beside each other."""
