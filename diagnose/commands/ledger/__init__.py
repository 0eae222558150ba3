"""The ledger of promises: what was predicted of a change beside what it achieved, kept on this machine.

A command that has measured a change says `record(promise_of_patch(diagnosis))`, or `record(promise_of(...))` where the
prediction and the measurement are its own; one that shows a diagnosis says `quoting(diagnosis, kept().promises)`.
Nothing here is sent anywhere, and nothing that fails here fails a command.
"""
