"""The parts of a job's memory, and the effect of a change on them."""
