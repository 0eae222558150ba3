"""Classifies a folder of JPEG files, a subfolder for each class; each is decoded, turned and scaled in the loader."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from timing import Samples, Steps, options, place
from torch import nn

CLASSES = ("cat", "dog")


def drawn_files(folder: Path, count: int, size: int) -> None:
    """Pictures of noise, which is as slow to decode as what a camera sees."""
    noise = np.random.default_rng(0)
    for number in range(count):
        place_of = folder / CLASSES[number % 2] / f"{number}.jpg"
        place_of.parent.mkdir(exist_ok=True)
        small = Image.fromarray(noise.integers(0, 255, (size // 8, size // 8, 3), dtype=np.uint8))
        small.resize((size, size)).save(place_of, quality=90)


class ImageFolder(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):
    """The files below the folders of the classes."""

    def __init__(self, folder: Path, side: int) -> None:
        self._files = [(path, at) for at, name in enumerate(CLASSES) for path in sorted((folder / name).iterdir())]
        self._side = side

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        path, label = self._files[at]
        image = Image.open(path).convert("RGB").rotate(5).resize((self._side, self._side))
        return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float() / 255, label


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    set_up = options(size=320, side=48, workers=0, steps=40)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(32, len(CLASSES)),
    ).to(place())  # fmt: skip
    optimizer, steps, seen = torch.optim.AdamW(model.parameters(), fused=True), Steps(), Samples()
    with tempfile.TemporaryDirectory() as folder:
        drawn_files(Path(folder), 8 * set_up["steps"], set_up["size"])
        data = ImageFolder(Path(folder), set_up["side"])
        for images, labels in torch.utils.data.DataLoader(data, 8, shuffle=True, num_workers=set_up["workers"]):
            seen.saw(images)
            nn.functional.cross_entropy(model(images.to(place())), labels.to(place())).backward()
            optimizer.step()
            optimizer.zero_grad()
            steps.ended()
    steps.report()
    seen.report()


if __name__ == "__main__":
    main()
