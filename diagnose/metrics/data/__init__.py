"""The input: the DataLoader, work on the input in the loop, and the cores that the host has for it."""
