"""`diagnose analyze`: a trace or a folder of them in, the report out."""
