"""PPO in one file, as CleanRL writes it: CartPoles are stepped one by one, or at once, then updates follow."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from timing import Steps, options
from torch import nn

GAMMA, CLIP = 0.99, 0.2


class Agent(nn.Module):
    """A policy and its critic."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
        self.critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def chances(self, seen: torch.Tensor) -> torch.distributions.Categorical:
        """Of the actions."""
        return torch.distributions.Categorical(logits=self.policy(seen))


def rollout(agent: Agent, environments: Any, seen: Any, length: int) -> tuple[Any, tuple[torch.Tensor, ...]]:
    """Play so many steps in all environments; what was seen, done and returned."""
    observed, actions, log_chances, rewards = [], [], [], []
    for _ in range(length):
        with torch.no_grad():
            now = torch.as_tensor(np.asarray(seen, dtype=np.float32))
            chances = agent.chances(now)
            action = chances.sample()
        seen, reward, _, _, _ = environments.step(action.numpy())
        observed.append(now)
        actions.append(action)
        log_chances.append(chances.log_prob(action))
        rewards.append(torch.as_tensor(np.asarray(reward, dtype=np.float32)))
    returns = torch.zeros_like(rewards[-1])
    later = []
    for reward in reversed(rewards):
        returns = reward + GAMMA * returns
        later.append(returns)
    return seen, tuple(torch.cat(each) for each in (observed, actions, log_chances, later[::-1]))


def main() -> None:
    """Train."""
    torch.set_num_threads(1)
    set_up = options(vectorised=False, environments=64, length=24, minibatches=4, iterations=30)
    how = "vector_entry_point" if set_up["vectorised"] else "sync"
    made = gymnasium.make_vec("CartPole-v1", num_envs=set_up["environments"], vectorization_mode=how)
    agent, steps = Agent(), Steps()
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, fused=True)
    seen, _ = made.reset(seed=0)
    for _ in range(set_up["iterations"]):
        seen, played = rollout(agent, made, seen, set_up["length"])
        for at in torch.randperm(len(played[0])).chunk(set_up["minibatches"]):
            observed, action, before, returns = (each[at] for each in played)
            value = agent.critic(observed).flatten()
            ratio = (agent.chances(observed).log_prob(action) - before).exp()
            advantage = returns - value.detach()
            gained = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
            loss = (value - returns).square().mean() - gained.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps.ended()
    steps.report()


if __name__ == "__main__":
    main()
