"""The links that the ranks communicate over, their speed, and the speed that they should have."""
