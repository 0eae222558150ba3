"""Facts of a job that a trace lacks: its objects as the hooks meet them, and the record made of them.

`record` puts together the capture's record, at the end of a window; `when_due` imports it then, and not before.
"""
