"""Lines of the user's code: where the training thread is, by samples of its stack or by its recorded calls."""
