"""The holdings of this process as its steps go on, and the containers of the job's own code that grow with them."""
