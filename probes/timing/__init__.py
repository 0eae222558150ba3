"""Continuous timing of the whole job: the time of every step, and windows that open at slow steps or on request."""
