"""Measure a job's input pipeline in its own process, where its training loop begins, and without training.

`loop_begin` and `trainer_begin` find the moment; `measurement` goes through the stages and ends the process. `source`
takes the job's DataLoader apart, and each of the other modules measures one thing of it.
"""
