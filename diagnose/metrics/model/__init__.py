"""The model: its FLOPs and tokens, MFU, and what its batch decides."""
