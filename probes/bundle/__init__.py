"""The folder of one capture: whose it is, what one rank and one window leave in it, and the disk that it lies on."""
