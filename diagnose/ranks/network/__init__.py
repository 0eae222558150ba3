"""Over what the ranks communicate, how fast, and how fast that should be."""
