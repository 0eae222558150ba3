"""Reports: pure functions of a Diagnosis."""
