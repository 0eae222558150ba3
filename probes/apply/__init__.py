"""A patch of `diagnose run --apply`, on its way into the job: one module for each target, as `frameworks` names it.

`allowed` lists what a patch may set, `job_patch` is what this process is to apply and what it refused, and
`constructors` puts values into what the job makes. `loader_order` and `loader_trial` keep the samples of a patched
loader as they were.

`reasons` are all that a refusal may give; `of_*`, `samples`, `sample_keys` and `worker_split` find them by reading, for
a patch and, by `recorded`, for the record of every capture.
"""
