"""What ranks exchange, what that costs, and who is late."""
