"""Limits of a window: the choice of ranks, the room on the machine, and the size of a step's trace."""
