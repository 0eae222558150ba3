"""Mutants of what judges: each threshold moved by a fifth, each condition negated, and what of the tests notices."""
