"""One window as a trace: torch.profiler around it, ranges in it, the clock of its steps, and the file that is written.

`recorder` runs torch's profiler for a session, and `in_code` for a script that asks for it itself.
"""
