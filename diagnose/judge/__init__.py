"""Ledgers, facts and rules to a Diagnosis."""
