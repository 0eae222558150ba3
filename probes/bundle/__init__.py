"""The folder of one capture: its owner, the files of one rank and one window in it, and the disk that holds it."""
