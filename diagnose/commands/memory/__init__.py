"""Snapshots of torch's caching allocator: the contents of the peak, and the state of the free memory."""
