"""Many jobs together: their diagnoses in, what their GPU-hours went to, and what to change first, out."""
