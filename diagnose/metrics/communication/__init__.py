"""Metrics of communication: what ranks exchange, its cost, and late ranks."""
