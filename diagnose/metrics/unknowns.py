"""Reasons that several metrics give for what they cannot measure."""

from diagnose.facts import DIAGNOSE_RUN, Unknown, Value, analysis_option, another_run, capture_setting, nothing_helps

NOT_IN_THE_RECORD = nothing_helps("diagnose run took this trace, and its record does not hold it")
NO_RECORD = Unknown("the trace comes without a capture record", DIAGNOSE_RUN)
NO_MODEL = Unknown("the record does not contain the sizes of the model", capture_setting("diagnose run"))
NOT_RECORDED = Unknown("the job does not say: no Trainer, model or token batch was seen", nothing_helps("it has none"))
NO_SIZES = Unknown("no collective carries its size", capture_setting("torch 2.3 or later"))
MORE_STEPS = another_run("capture at least four steps after two warm-up steps")
NO_GPU = Unknown("the trace has no GPU activity", capture_setting("ProfilerActivity.CUDA on the GPU machine"))
NOT_WATCHED = Unknown(
    "the GPU's activity was not recorded", capture_setting("ProfilerActivity.CUDA beside ProfilerActivity.CPU")
)
ON_THE_CPU = Unknown(
    "the model runs on the CPU: the GPU was recorded, and nothing was launched on it",
    another_run("move the model and its batches to the GPU, and capture that"),
)
NOTHING_RECORDED = Unknown(
    "nothing was recorded: the capture holds no operator and no kernel",
    another_run("start the profiler around the job's steps, in the process that runs them"),
)
CAPTURE_FAILED = Unknown(
    "kernels were launched but no GPU activity was recorded (CUPTI failed or was taken by another tool)",
    another_run("capture again without Nsight or DCGM profiling attached, with at least one warm-up step"),
)
UNKNOWN_DEVICE = Unknown(
    "the job runs on a device whose activities diagnose does not know",
    another_run("take the times of this device from its own profiler"),
)
GRAPHS_CAPTURED = Unknown(
    "the steps capture a GPU graph, and no matrix kernel runs in them",
    another_run("begin the window behind the graph capture"),
)
NO_RUNTIME = Unknown(
    "the trace holds no calls into the GPU's runtime", another_run("capture CPU and CUDA activities together")
)
NO_PYTHON = Unknown("events of Python functions were left out to save memory", analysis_option("--python-functions"))
NO_SHAPES = Unknown("operator shapes were not recorded", capture_setting("record_shapes=True"))
NO_REDUCTION = Unknown("no gradient was reduced in the counted steps", nothing_helps("the ranks share no gradients"))


def not_asked_again(value: Value, has_record: bool) -> Value:
    """The value; an unknown one does not ask for a capture with diagnose run where that has taken the trace."""
    asks = isinstance(value, Unknown) and value.capture is not None and value.capture.what == DIAGNOSE_RUN.what
    if not (has_record and asks and isinstance(value, Unknown) and value.capture is not None):
        return value
    return Unknown(value.because, value.capture.or_else or NOT_IN_THE_RECORD)
