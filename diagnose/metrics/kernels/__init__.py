"""Metrics of kernels: what they do, how they do it, and what calls them."""
