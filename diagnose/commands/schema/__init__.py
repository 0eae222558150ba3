"""`diagnose schema`: the shape of the JSON of each command."""
