# pytorch#101850: a library has bound the process to one core before the workers start, and all workers share it
import os
import sys

import torch

if "--main" in sys.argv:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, index):
        total = 0
        for number in range(20000):
            total += number * number
        return torch.randn(64), torch.tensor([float(total % 7)])


def main():
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    loader = torch.utils.data.DataLoader(Squares(), batch_size=8, num_workers=4)
    for step, (inputs, wanted) in enumerate(loader):
        loss = (model(inputs) - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step >= 200:
            break


if __name__ == "__main__":
    main()
