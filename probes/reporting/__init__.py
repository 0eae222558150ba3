"""Reports of a window while the job goes on: a second process analyses it, and the loggers receive the result."""
