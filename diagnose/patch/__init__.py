"""Changes of a configuration: put together, written and read as files, and compared with their measured gain."""
