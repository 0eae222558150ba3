"""The messages by which libraries say that a job runs slower than it could: known to the probe and to the analysis.

A row is a message that Python's warnings or a logger carry, and what it means. Texts are those of the libraries, so far
as they stay the same from call to call. Not here: what does not concern speed, what measured rules judge better (more
workers for a loader, `find_unused_parameters`), and what never passes through this process's Python (Rust's prints of
tokenizers, messages of a DataLoader's workers). Like `frameworks` it imports nothing.
"""

KERNELS, COMPUTE, INPUT = "kernels", "compute", "input"
PACKAGES = ("flash-linear-attention", "causal-conv1d", "mamba-ssm", "flash-attn", "kernels")
"""What a message may say to install, by the names under which they are installed."""


class Announcement:
    """A message of a library.

    Attributes:
        key: by which the record names it.
        library: the first part of the logger's name, or of the warning's words if `by_warning`.
        parts: what the text holds, all of them, in this order.
        about: KERNELS if a slow implementation runs in the place of a kernel, else what is slower.
        says: the message as a clause; {what} is the function or the number in it.
        remedy: the library's own, to begin a sentence; empty if its packages are to be installed.
        what: the part of the text that varies, as a regular expression with one group.
    """

    def __init__(
        self,
        key: str,
        parts: "tuple[str, ...]",
        about: str,
        says: str,
        remedy: str = "",
        *,
        logger: str = "",
        what: str = "",
    ) -> None:
        self.key, self.parts, self.about = key, parts, about
        self.says, self.remedy, self.logger, self.what = says, remedy, logger, what


_TRANSFORMERS = "transformers"
ANNOUNCEMENTS = (
    Announcement(
        "reference-implementation",
        ("is falling back to its reference PyTorch implementation because", "is not installed"),
        KERNELS,
        "{what} runs its reference PyTorch implementation, which is much slower",
        logger=_TRANSFORMERS,
        what=r"`([A-Za-z_]\w{0,79})` is falling back",
    ),
    Announcement(  # of earlier versions: one message for all functions of a model
        "fast-path",
        ("fast path is not available because",),
        KERNELS,
        "the fast path of the model is not available, and a torch implementation runs",
        logger=_TRANSFORMERS,
    ),
    Announcement(
        "mamba-kernels",
        ("fast mamba kernels are not available",),
        KERNELS,
        "the fast mamba kernels are not available, and a torch implementation runs",
        logger=_TRANSFORMERS,
    ),
    Announcement(
        "flash-attention-package",
        ("flash-attention", "package not found, consider installing for better performance"),
        KERNELS,
        "attention runs without the flash-attention package",
        logger=_TRANSFORMERS,
    ),
    Announcement(
        "manual-attention",
        ("Falling back to the manual attention implementation",),
        COMPUTE,
        "attention falls back to the manual implementation",
        "ask for no attention weights (output_attentions), nor a head mask, which the fused kernels do not give",
        logger=_TRANSFORMERS,
    ),
    Announcement(
        "flash-attention-dtype",
        ("Flash Attention", "only supports", "float16", "bfloat16", "dtypes"),
        COMPUTE,
        "Flash Attention supports fp16 and bf16 only, and the model has another type",
        "run the training with automatic mixed precision, or load the model with dtype=torch.bfloat16",
        logger=_TRANSFORMERS,
    ),
    Announcement(
        "cast-for-flash-attention",
        ("hidden states seems to be silently casted in float32",),
        COMPUTE,
        "hidden states are float32 and are cast back for attention",
        "look for norms or embeddings that were upcast to float32",
        logger=_TRANSFORMERS,
    ),
    Announcement(
        "embedding-size",
        ("resizing the embedding layer without providing a `pad_to_multiple_of`",),
        COMPUTE,
        "the embedding has a size for which tensor cores may not be used",
        "pass pad_to_multiple_of=64 to resize_token_embeddings",
        logger=_TRANSFORMERS,
    ),
    Announcement(
        "fp8-across-devices",
        ("FP8 model spans multiple CUDA devices in one process",),
        COMPUTE,
        "an FP8 model spans several GPUs in one process, and its layers run without DeepGEMM",
        "run tensor or expert parallel, one device per process",
        logger=_TRANSFORMERS,
    ),
    Announcement(
        "slow-image-processor",
        ("Using a slow image processor",),
        INPUT,
        "a slow image processor prepares the images",
        "pass use_fast=True to the image processor",
        logger=_TRANSFORMERS,
    ),
    Announcement(
        "padding-after-encoding",
        ("with a fast tokenizer, using the `__call__` method is faster than",),
        INPUT,
        "texts are encoded and padded in two calls",
        "use the tokenizer's __call__ method, which encodes and pads at once",
        logger=_TRANSFORMERS,
    ),
    Announcement(
        "pinning-for-non-blocking",
        ("`non_blocking` is enabled but `dataloader_pin_memory` is not",),
        INPUT,
        "copies are to be non-blocking, from memory that is not pinned",
        "enable dataloader_pin_memory as well",
        logger=_TRANSFORMERS,
    ),
    Announcement(
        "more-workers-than-cores",
        ("This DataLoader will create", "worker processes in total", "suggested max number of worker"),
        INPUT,
        "a DataLoader creates more workers than torch suggests on this system, which is {what}",
        "lower the worker number to avoid slowness",
        what=r"in current system is (\d{1,6})",
    ),
    Announcement(
        "tf32-not-enabled",
        ("TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled",),
        COMPUTE,
        "TensorFloat32 tensor cores are available but not enabled",
        "set torch.set_float32_matmul_precision('high')",
    ),
    Announcement(
        "tensor-cores-of-lightning",
        ("that has Tensor Cores. To properly utilize them, you should set",),
        COMPUTE,
        "the GPU's Tensor Cores are not used for float32",
        "set torch.set_float32_matmul_precision('high'), which trades precision for performance",
        logger="lightning",
    ),
    Announcement(
        "recompile-limit",
        ("torch._dynamo hit config.",),
        COMPUTE,
        "torch.compile reached its limit of recompilations, and runs the function uncompiled",
        'find what changes with TORCH_LOGS="recompiles"',
        logger="torch",
    ),
    Announcement(
        "too-few-multiprocessors",
        ("Not enough SMs to use max_autotune_gemm mode",),
        COMPUTE,
        "the GPU has too few multiprocessors for max-autotune to choose the kernels of matrix products",
        "use mode='default', or 'reduce-overhead'",
        logger="torch",
    ),
    Announcement(
        "no-cuda-graphs",
        ("skipping cudagraphs due to",),
        COMPUTE,
        "torch.compile skips CUDA graphs",
        "remove what torch names behind 'skipping cudagraphs due to'",
        logger="torch",
    ),
    Announcement(
        "gradient-strides",
        ("Grad strides do not match bucket view strides",),
        COMPUTE,
        "strides of gradients do not match those of DDP's buckets, which may impair performance",
        "keep the layout that parameters have when DDP is constructed, and make gradients contiguous",
    ),
    Announcement(
        "scattered-rnn-weights",
        ("RNN module weights are not part of single contiguous chunk of memory",),
        COMPUTE,
        "the weights of an RNN are compacted at every call",
        "call flatten_parameters() once after the module is moved or changed",
    ),
    Announcement(
        "built-without-flash-attention",
        ("Torch was not compiled with flash attention",),
        COMPUTE,
        "torch was not compiled with flash attention",
        "install a build of torch that has it for this GPU",
    ),
    Announcement(
        "no-batching-rule",
        ("There is a performance drop because we have not yet implemented", "batching rule"),
        COMPUTE,
        "vmap runs an operator sample by sample, as it has no batching rule",
        "use another operator under vmap",
    ),
    Announcement(
        "fallback-to-cpu",
        ("is not currently supported on the", "fall back to run on the CPU"),
        COMPUTE,
        "an operator runs on the CPU, as the device does not support it",
        "use another operator, or a newer torch",
    ),
    Announcement(
        "slow-4bit-products",
        ("bnb_4bit_compute_dtype=torch.float32", "slow inference or training speed"),
        COMPUTE,
        "products of 4-bit weights compute in float32",
        "set bnb_4bit_compute_dtype=torch.bfloat16",
    ),
)
BY_KEY = {each.key: each for each in ANNOUNCEMENTS}
