"""Many jobs together: from their diagnoses to the use of their GPU-hours, and the changes to make first."""
