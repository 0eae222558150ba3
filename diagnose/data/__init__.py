"""Tables that the package reads."""
