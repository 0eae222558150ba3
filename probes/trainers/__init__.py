"""Trainers that count their own steps: one module for each, named in its row of `frameworks`.

Its `install()` puts ranges around the trainer's methods, and has the trainer call `training_loop`: `begins` before the
first step, with the job's objects and the trainer's settings, `step_ended` after each optimizer step, and `ends`
however training ends. `transformers_trainer` is the example. `deepspeed_engine` is no trainer but steps optimizers
together: it informs `torch_hooks`, and whoever runs the loop around it counts for himself.
"""
