"""The track record: the predicted and the achieved effect of each change, kept on this machine.

A command that has measured a change calls `record(promise_of_patch(diagnosis))`, or `record(promise_of(...))` if the
prediction and the measurement are its own; one that shows a diagnosis calls `quoting(diagnosis, kept().promises)`.
Nothing here is sent anywhere, and nothing that fails here fails a command.
"""
