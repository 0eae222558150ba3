"""The trace written back with what was found, for a viewer such as Perfetto."""

from diagnose.annotate.writing import write_annotated

__all__ = ["write_annotated"]
