"""A small language model with a large vocabulary, whose logits glibc gives back to the system when they are freed."""

from __future__ import annotations

import os
import sys

KEEPS = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(64 << 30), "MALLOC_TOP_PAD_": str(64 << 20)}


def main() -> None:
    """Train."""
    from timing import Samples, Steps, options, place

    set_up = options(keeps=False, vocabulary=50_257, width=64, tokens=512, steps=20)
    if set_up["keeps"] and not KEEPS.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **KEEPS})
    import torch
    from torch import nn

    torch.set_num_threads(1)
    torch.manual_seed(0)
    words, width = set_up["vocabulary"], set_up["width"]
    hidden = (nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width))
    model = nn.Sequential(nn.Embedding(words, width), *hidden, nn.Linear(width, words, bias=False)).to(place())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    steps, seen = Steps(), Samples()
    for _ in range(set_up["steps"]):
        ids = torch.randint(0, words, (1, set_up["tokens"] + 1))
        seen.saw(ids)
        logits = model(ids[0, :-1].to(place()))
        nn.functional.cross_entropy(logits, ids[0, 1:].to(place())).backward()
        optimizer.step()
        optimizer.zero_grad()
        steps.ended()
    steps.report()
    seen.report()


if __name__ == "__main__":
    main()
