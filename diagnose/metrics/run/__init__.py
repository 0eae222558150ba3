"""The run: its steps, its device and memory, how it is set up and captured."""
