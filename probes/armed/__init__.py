"""The whole job under the probe: the time of every step, and windows that open where it is slow, or when asked for."""
