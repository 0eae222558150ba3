"""Exports of Nsight Systems (SQLite) to the columns of a trace."""
