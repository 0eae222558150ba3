"""The tools of an agent: which command each is, when to call it, and which of its options it has."""

from diagnose.commands.agents.tool import Tool
from diagnose.commands.analyze.command import analyze
from diagnose.commands.compare.command import compare
from diagnose.commands.explain.command import explain
from diagnose.commands.fit.command import fit

PATHS = ("path", "before", "after", "calibrate", "from_run")  # arguments that have to be in the roots
_OF_WORK = ("gpu", "flops_per_step", "params", "seq_len", "tokens_per_step", "peak_tflops", "hbm_gbs", "network_gbs")
_OF_JOB = ("run", "rank", "step", *_OF_WORK)
_OF_COST = ("gpu_hour_price", "power_w", "tokens", "critical_batch", "mtbf_hours")
_OF_FIT = (
    "gpus", "nodes", "seq_len", "micro_batch", "accumulation", "global_batch", "dtype", "optimizer", "attn",
    "checkpointing", "liger", "compiled", "fp8", "dp", "tp", "pp", "zero", "fsdp", "stack", "calibrate", "network_gbs",
    "tokens", "deadline", "budget", "gpu_hour_price", "power_w",
)  # fmt: skip
_RUN = "A trace of torch.profiler or Nsight Systems, a folder with one for each rank, or a bundle of `diagnose run`"
_SIDE = f"{_RUN}; or a diagnosis as JSON, or a log of step times."
_ALONE = ("--no-cache", "--jobs=1")  # nothing kept on disk, no further process

_ANALYZE = Tool(
    "analyze",
    analyze,
    "Say why a training job is slow: where the step goes, what bounds it, MFU, findings with evidence, what to change "
    "first and how much that buys, and what could not be judged and why. Call it first.",
    {"path": f"{_RUN}."},
    _OF_JOB,
    _ALONE,
)
_PLAN = Tool(
    "plan",
    analyze,
    "List the changes of a job in the order to make them, each with its range of speedup alone and together, the exact "
    "settings, whether it changes the results, what it costs, and what would not help. Call it before editing a job.",
    {"path": f"{_RUN}."},
    (*_OF_JOB, *_OF_COST),
    _ALONE,
)
_COMPARE = Tool(
    "compare",
    compare,
    "Say whether run `after` is faster than run `before`, by how much beyond the noise, and which causes, kernels and "
    "settings differ. Call it after a change.",
    {"before": _SIDE, "after": _SIDE},
    ("noise", *_OF_WORK),
    _ALONE,
)
_EXPLAIN = Tool(
    "explain",
    explain,
    "Explain a rule, a class, a cause, a metric or a term: how it comes about, its formula with the numbers of a run, "
    "what to do, and what makes it wrong. Call it before acting on a finding.",
    {"name": "Such as launch-bound, memory-bound, data-wait, mfu, roofline or late rank."},
    ("from_run",),
)
_FIT = Tool(
    "fit",
    fit,
    "Predict a job before it runs, from sizes alone: whether it fits its GPUs, how fast it will be, and how to divide "
    "it. No run is read. Without dp, tp, pp, zero and fsdp every division is tried.",
    {
        "model": "Name (llama-3.1-8b), Hugging Face repository, or a config.json.",
        "gpu": "Such as H100 or A100-SXM4-80GB.",
    },
    _OF_FIT,
)
TOOLS = {tool.name: tool for tool in (_ANALYZE, _PLAN, _COMPARE, _EXPLAIN, _FIT)}
