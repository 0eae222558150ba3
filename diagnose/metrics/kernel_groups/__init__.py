"""Groups of kernels by name, on which remedies act."""
