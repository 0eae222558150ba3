"""What a trace does not say of a job: its objects as the hooks meet them, and the record that is made of them.

`record` puts together the capture's record, at the end of a window; `when_due` imports it then, and not before.
"""
