"""The machine during a run: its readings in the step logs, and which of them changed with the step time."""
