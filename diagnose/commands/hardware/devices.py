"""The known devices, as the roofline describes each."""

from difflib import get_close_matches

from diagnose.errors import WrongUsage
from diagnose.hardware import Device, Gpu, resolve, table
from diagnose.hardware.named import properties_of


def matching(name: str) -> tuple[Gpu, ...]:
    """The devices with the text in their name.

    Raises:
        WrongUsage: there is none.
    """
    wanted = name.casefold()
    gpus = tuple(gpu for gpu in table() if any(wanted in known.casefold() for known in (gpu.key, *gpu.names)))
    if not gpus:
        keys = {known.casefold(): gpu.key for gpu in table() for known in (gpu.key, *gpu.names)}
        near = dict.fromkeys(keys[close] for close in get_close_matches(wanted, keys, n=3, cutoff=0.4))
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise WrongUsage(
            "no known GPU has this in its name",
            where=name,
            do=f"{hint}`diagnose hardware` lists them all. Of another, diagnose analyze takes three figures:"
            " --peak-tflops (dense, in bf16 or fp16), --hbm-gbs (memory bandwidth) and --flops-per-step (of the model"
            " on one GPU)",
        )
    return gpus


def device_of(gpu: Gpu) -> Device:
    """The device as a trace without a capture record would give it."""
    return resolve(properties_of(gpu))
