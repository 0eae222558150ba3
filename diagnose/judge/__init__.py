"""Breakdowns, facts and rules to a Diagnosis."""
