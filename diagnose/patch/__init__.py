"""Changes of a configuration: put together, written and read as files, and held against what they gained."""
