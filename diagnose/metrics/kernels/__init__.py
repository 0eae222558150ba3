"""What the device runs: kernels by what they do, how they do it, and what calls them."""
