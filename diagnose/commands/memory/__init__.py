"""Snapshots of torch's caching allocator: what the peak is made of, and how the free memory lies."""
