"""Compare two runs: which is faster, by how much beyond the noise, and where the difference comes from."""
