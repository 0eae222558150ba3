"""The framework that runs the training loop, in whose words changes are given, and packages installed there."""

import re
from functools import cache

from diagnose.facts import DIAGNOSE_RUN, Unknown, Value
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import NO_PYTHON
from diagnose.probes.frameworks import BARE_LOOP, FRAMEWORKS, TRAINER, Framework, named
from diagnose.probes.protocol import SCRIPT
from diagnose.trace.vocabulary import PYTHON

_UNTOLD = Unknown("the trace does not say what runs the training loop", DIAGNOSE_RUN)


@metric("text", needs_gpu=False)
def training_loop(m: Measured) -> Value:
    """The runner of the training loop: a framework, such as "transformers Trainer" or "Lightning", or "bare loop".

    By the record, else by the names of ranges and Python functions: the first that is there, since each may use those
    after it.
    """
    recorded = m.record.text("training_loop")
    if recorded is not None:
        return _recorded(recorded)
    if isinstance(m.record.get("training_arguments"), dict):
        return TRAINER.name  # a record without `training_loop` holds no settings of another
    names = m.timeline.trace.names
    for framework, mark in _marks():
        if any(mark.match(name) for name in names):
            return framework.name
    if m.timeline.trace.rows_of(*PYTHON).any():
        return BARE_LOOP.name
    return NO_PYTHON if m.timeline.trace.left_out else _UNTOLD


def _recorded(name: str) -> Value:
    try:
        return named(name).name
    except LookupError as unknown:
        return Unknown(str(unknown), None)


@metric("text", needs_gpu=False)
def optimizer_made_by(m: Measured) -> Value:
    """The maker of the optimizer: a Trainer, "DeepSpeed" by its config, or "bare loop" where the script does.

    By the record; else the script, but for a Trainer that is not asked for the fused form while another one runs.
    """
    asked, runs = m.record.text("training_arguments.optim"), m.record.text("optimizer.class")
    contradicts = asked == "adamw_torch_fused" and runs is not None and not m.record.flag("optimizer.fused")
    loop = m.once(training_loop)
    alone = not isinstance(loop, Unknown) and not named(str(loop)).has_own_words
    return _maker(m, "optimizer", contradicts or alone)


@metric("text", needs_gpu=False)
def loader_made_by(m: Measured) -> Value:
    """The maker of the DataLoader: what runs the loop, or "bare loop" where the script does.

    By the record; else the script's, if it has another number of workers than the trainer's arguments ask for.
    """
    asked = m.record.number("training_arguments.dataloader_num_workers")
    runs = m.record.number("dataloader.num_workers")
    return _maker(m, "dataloader", None not in (asked, runs) and asked != runs)


def _maker(m: Measured, what: str, contradicts: bool) -> Value:
    """The maker, which is the script if what runs contradicts the arguments of the loop."""
    recorded = m.record.text(f"{what}.made_by")
    if contradicts and recorded in (None, m.once(training_loop)):
        return BARE_LOOP.name
    if recorded is None:
        return m.once(training_loop)
    return BARE_LOOP.name if recorded == SCRIPT else _recorded(recorded)


@cache
def _marks() -> tuple[tuple[Framework, re.Pattern[str]], ...]:
    """The names in a trace that show that a framework runs the loop: its ranges, and functions of its modules.

    A function has to run: an import runs the module alone.
    """
    found = []
    for framework in FRAMEWORKS:
        files = (re.escape(each).replace(r"\.", "/") for each in framework.modules)
        paths = "|".join(rf"{file}\S+" if file.endswith("/") else file for file in files)
        marks = [framework.ranges, *([rf"(?s:.*)\b({paths})\.py\(\d+\): (?!<module>)"] if paths else [])]
        found.append((framework, re.compile("|".join(filter(None, marks)) or r"(?!)")))
    return tuple(found)


@metric("flag", needs_gpu=False)
def liger_installed(m: Measured) -> Value:
    """Whether Liger (liger-kernel) is installed in the job's environment."""
    return _installed(m, "liger_kernel")


@metric("flag", needs_gpu=False)
def flash_attention_3_installed(m: Measured) -> Value:
    """Whether FlashAttention-3 is installed in the job's environment, or `kernels`, through which transformers fetches
    it.
    """
    return _installed(m, "flash_attn_3", "kernels")


@metric("flag", needs_gpu=False)
def uses_liger_loss(m: Measured) -> Value:
    """Whether Liger's fused linear cross entropy runs, by its name in the trace."""
    return any(name.startswith("LigerFusedLinearCrossEntropy") for name in m.timeline.trace.names)


def _installed(m: Measured, *packages: str) -> Value:
    """Whether one of the packages is installed; unknown if the record lacks one of them and shows no other."""
    versions = m.record.get("versions")
    known = versions if isinstance(versions, dict) else {}
    if any(known.get(package) for package in packages):
        return True
    return False if all(package in known for package in packages) else m.unrecorded
