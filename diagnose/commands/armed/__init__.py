"""`diagnose run --arm` and `diagnose trigger`: a job whose every step is timed, and its windows."""
