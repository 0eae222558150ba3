"""A job measured again and again, each time with one more change, until none helps: `diagnose tune`."""
