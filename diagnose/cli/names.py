"""Names of GPUs and models, for a shell that completes them."""

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem


def gpus(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The keys of the known GPUs."""
    from diagnose.hardware import table

    return _beginning(incomplete, (gpu.key for gpu in table()))


def models(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names of the known models; else files, one of which may be a config.json."""
    from diagnose.formulas.named_models import NAMED_MODELS

    return _beginning(incomplete, NAMED_MODELS) or [CompletionItem(incomplete, type="file")]


def _beginning(incomplete: str, names: Iterable[str]) -> list[CompletionItem]:
    wanted = incomplete.casefold()
    return [CompletionItem(name) for name in names if name.casefold().startswith(wanted)]
