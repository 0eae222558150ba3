"""Lines of the user's code on which the training thread spends time, by samples of its stack or recorded calls."""
