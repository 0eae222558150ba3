"""A job whose libraries warn and log in many ways, some of them in words that the probe knows. Its output tells all."""

import logging
import sys
import traceback
import warnings

import torch

WORKERS = (
    "This DataLoader will create 9 worker processes in total. Our suggested max number of worker in current system "
    "is 2, which is smaller than what this DataLoader is going to create."
)
TF32 = (
    "TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled. "
    "Consider setting `torch.set_float32_matmul_precision('high')` for better performance."
)
FALLBACK = (
    "`chunk_gated_delta_rule` is falling back to its reference PyTorch implementation because "
    "`flash-linear-attention` is not installed. This is correct but much slower; install "
    "`flash-linear-attention` for the optimized kernel."
)
for name in ("transformers", "torch.stood_in"):
    library = logging.getLogger(name)
    library.propagate = False
    library.handlers[:] = [logging.StreamHandler(sys.stdout)]
    library.setLevel(logging.WARNING)


class Odd(UserWarning):
    """A category whose text runs code of the job's."""

    def __str__(self):
        print("asked for its text")
        return "odd"


def on_stack(*shown):
    traceback.print_stack(file=sys.stdout)
    print(shown[0], shown[3])


for _ in range(2):
    warnings.warn(WORKERS, stacklevel=1)  # once, as the filters have it
with warnings.catch_warnings(record=True) as recorded:
    warnings.simplefilter("always")
    warnings.warn(TF32, stacklevel=1)
    print([str(each.message)[:20] for each in recorded], recorded[0].lineno, vars(recorded[0]).keys())
with warnings.catch_warnings():
    warnings.simplefilter("error")
    try:
        warnings.warn(TF32, stacklevel=1)
    except UserWarning as error:
        traceback.print_exception(error, file=sys.stdout)
with warnings.catch_warnings():
    warnings.simplefilter("always")
    warnings.showwarning = on_stack
    warnings.warn(WORKERS, stacklevel=1)
    warnings.warn(Odd(), stacklevel=1)
logging.captureWarnings(True)
warnings.warn("to a logger", stacklevel=1)
logging.captureWarnings(False)
logging.getLogger("transformers.models").warning(FALLBACK)
logging.getLogger("transformers.models").info(FALLBACK.replace("chunk", "unheard"))
logging.getLogger("torch.stood_in").warning("torch._dynamo hit config.%s (%s)", "recompile_limit", 8)
logging.getLogger("of.the.job").warning("of the job: %s", FALLBACK)
print(logging.getLogger("of.the.job").hasHandlers(), logging.root.handlers, len(warnings.filters))

model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(40):
    optimizer.zero_grad()
    model(torch.ones(8, 64)).sum().backward()
    optimizer.step()
