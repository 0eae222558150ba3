"""Predict the gain of a change: replay a rank's step with it, and put changes in the order in which they pay."""
