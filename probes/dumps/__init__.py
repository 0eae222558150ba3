"""Torch's own recorders, armed so that a job that hangs or runs out of memory leaves their dumps in the bundle."""
