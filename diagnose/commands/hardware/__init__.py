"""`diagnose hardware`: what every known GPU can do at most, and who says so."""
