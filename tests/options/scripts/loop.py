"""A small job: 40 steps that always print the same, a line on stderr, and an exit code that is not 0.

`--slow-at K` makes the steps K to K + 2 last a third of a second, `--signal-at K` sends SIGURG to itself, and
`--sample-ms F` makes each sample take so long. `--well` ends with 0.
"""

import argparse
import os
import signal
import sys
import time

import torch

asked = argparse.ArgumentParser()
asked.add_argument("--slow-at", type=int, default=0)
asked.add_argument("--signal-at", type=int, default=0)
asked.add_argument("--sample-ms", type=float, default=0)
asked.add_argument("--well", action="store_true")
given = asked.parse_args()


class Samples(torch.utils.data.TensorDataset):
    """Samples in memory, each of which may take its time."""

    def __getitem__(self, index):
        if given.sample_ms:
            time.sleep(given.sample_ms / 1e3)
        return super().__getitem__(index)


torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
samples = Samples(torch.randn(80, 8))
for step, (batch,) in enumerate(torch.utils.data.DataLoader(samples, batch_size=2), 1):
    if step == given.signal_at:
        os.kill(os.getpid(), signal.SIGURG)
    if given.slow_at and given.slow_at <= step < given.slow_at + 3:
        time.sleep(0.3)
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item():.6f}", flush=True)
print("the end", file=sys.stderr)
sys.exit(0 if given.well else 3)
