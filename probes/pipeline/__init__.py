"""What a job's input pipeline does, measured in its process where its training loop begins, and without training.

`loop_begin` and `trainer_begin` tell when; `measurement` goes through the stages and ends the process. `source` takes
the job's DataLoader apart, and each of the other modules measures one thing of it.
"""
