"""Stacks of the training thread: `sampling` looks at them, and `folding` shows them as lines of the user."""
