# pytorch#188150: batches padded to their longest sample under torch.compile with static shapes; each length is compiled
import random

import torch
from torch import nn

random.seed(0)
torch.manual_seed(0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(256, 128)
        layers = (nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0) for _ in range(2))
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(128, 256)

    def forward(self, tokens):
        hidden = self.embedding(tokens)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, at):
        return torch.randint(0, 256, (random.randrange(16, 96),))


def padded(batch):
    return nn.utils.rnn.pad_sequence(batch, batch_first=True)


model = Model()
optimizer = torch.optim.AdamW(model.parameters())
compiled = torch.compile(model, backend="aot_eager", dynamic=False)
for step, tokens in enumerate(torch.utils.data.DataLoader(Samples(), batch_size=4, collate_fn=padded)):
    loss = nn.functional.cross_entropy(compiled(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step >= 60:
        break
