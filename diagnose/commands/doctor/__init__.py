"""`diagnose doctor`: what a capture can see on a machine."""
