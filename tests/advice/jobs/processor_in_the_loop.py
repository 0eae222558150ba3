# The preprocessing of a library runs on the thread that trains, for each step (as timesformer's video pipeline does).
import sys

import numpy as np
import torch
from torch import nn
from transformers import WhisperFeatureExtractor

torch.manual_seed(0)
torch.set_num_threads(1)
processor = WhisperFeatureExtractor(feature_size=16, chunk_length=1)
net = nn.Linear(8 * 16 * 100, 16)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
sounds = [np.random.default_rng(n).normal(size=16000).astype(np.float32) for n in range(8)]


def train(steps: int) -> None:
    for _ in range(steps):
        features = processor(sounds, sampling_rate=16000, return_tensors="pt").input_features
        loss = net(features.flatten()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
