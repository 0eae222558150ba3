"""Why a training job is slow, what to change next, and how much that buys."""

__version__ = "0.1.0"
