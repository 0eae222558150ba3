"""What the memory of a job consists of, and what a change makes of it."""
