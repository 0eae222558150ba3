"""What a window may record: by the choice of ranks, what the machine has room for, and what a step of the job takes."""
