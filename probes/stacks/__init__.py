"""Where the training thread is in Python: `sampling` looks at its stack, and `folding` says it in the user's lines."""
