"""What this process holds as its steps go on, and which containers of the job's own code grow with them."""
