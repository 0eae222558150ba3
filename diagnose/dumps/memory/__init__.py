"""Snapshots of torch's caching allocator: what the peak is made of, and how the free memory lies."""

from diagnose.dumps.memory.answer import Counted, MemoryAnswer, schema, to_json
from diagnose.dumps.memory.judging import judged
from diagnose.dumps.memory.snapshot import read

__all__ = ["Counted", "MemoryAnswer", "judged", "read", "schema", "to_json"]
