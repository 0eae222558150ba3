"""`diagnose watch`: an armed run while it runs or after it ended, from the files in its folder alone."""
