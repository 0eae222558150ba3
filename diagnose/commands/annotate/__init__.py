"""The trace with the diagnosis in it, for a viewer such as Perfetto."""
