"""The trace written back with what was found, for a viewer such as Perfetto."""
