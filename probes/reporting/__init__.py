"""What becomes of a window while the job goes on: it is analysed beside the training, and loggers are told."""
