"""TRL's trainers: transformers' Trainer with phases of a step of their own, which are ranges as well.

GRPO's calls in their order run in transformers' own Trainer, where TRL is not installed.
"""

from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
from capture.bundles import facts, ranges
from capture.frameworks import DPO, GRPO, SFT
from capture.scripts import TRAINER, run, said
from needs import needs

needs("transformers", "accelerate")

IN_ORDER = (
    TRAINER
    + """
class GRPO(Trainer):
    def _prepare_inputs(self, inputs):
        inputs = super()._prepare_inputs(inputs)
        self._generate(inputs)
        self._get_per_token_logps_and_entropies(self.model, inputs)
        self._calculate_rewards(inputs)
        return inputs
    def _generate(self, inputs):
        self._generate_single_turn(inputs)
    def _generate_single_turn(self, inputs):
        self.model.generate(inputs["input_ids"], max_new_tokens=3, pad_token_id=0)
    def _get_per_token_logps_and_entropies(self, model, inputs):
        return model(**inputs)
    def _calculate_rewards(self, inputs):
        return torch.ones(len(inputs["input_ids"]))
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        return self._get_per_token_logps_and_entropies(model, inputs).loss
trainer(GRPO, gradient_accumulation_steps=1).train()
"""
)
trl = [pytest.mark.compat, pytest.mark.skipif(find_spec("trl") is None, reason="needs trl")]
Spans = dict[str, list[tuple[float, float]]]


def captured(script: str, folder: Path, *, fresh: bool) -> Spans:
    """Begin and end of each range in the trace of three steps, in order."""
    done = run(script, folder, {"at_step": 9}, fresh=fresh)
    assert done.returncode == 0, done.stderr
    assert said(done) == []
    found = {name: sorted(spans) for name, spans in ranges(folder / "out").items()}
    assert [name for name in found if name.startswith("Prof")] == [f"ProfilerStep#{step}" for step in (9, 10, 11)]
    return found


@pytest.mark.parametrize(
    ("script", "fresh"),
    [
        pytest.param(GRPO + "trainer().train()\n", True, marks=trl, id="trl"),
        pytest.param(IN_ORDER, False, id="calls in order"),
    ],
)
def test_the_phases_of_grpo_follow_each_other_in_each_step(tmp_path: Path, script: str, fresh: bool) -> None:
    found = captured(script, tmp_path, fresh=fresh)

    outside = [span for span in found["diagnose.log_probabilities"] if not inside(span, found["diagnose.forward"])]
    phases = [found["diagnose.generation"], found["diagnose.rewards"], outside, found["diagnose.forward"],
              found["diagnose.backward"], found["diagnose.clip"], found["diagnose.optimizer"]]  # fmt: skip
    assert [len(spans) for spans in phases] == [3] * 7
    for generation, rewards, reference, *update in zip(*phases, strict=True):
        assert generation[1] <= min(rewards[0], reference[0]) <= max(rewards[1], reference[1]) <= update[0][0]
        assert all(one[1] <= next_one[0] for one, next_one in pairwise(update))
    assert not any(inside(span, found["diagnose.to_device"]) for span in found["diagnose.generation"])


def inside(span: tuple[float, float], others: list[tuple[float, float]]) -> bool:
    """Whether the range lies in one of the others."""
    return any(begin <= span[0] and span[1] <= end for begin, end in others)


@pytest.mark.compat
@pytest.mark.parametrize("script", [SFT, DPO], ids=["SFT", "DPO"])
def test_the_other_trainers_have_the_ranges_of_transformers(tmp_path: Path, script: str) -> None:
    needs("trl")
    found = captured(script + "trainer().train()\n", tmp_path, fresh=True)

    assert len(found["diagnose.forward"]) == len(found["diagnose.backward"]) == 6
    assert len(found["diagnose.data_wait"]) == len(found["diagnose.optimizer"]) == len(found["diagnose.clip"]) == 3
    assert "diagnose.generation" not in found
    assert facts(tmp_path / "out")["training_arguments"]["gradient_accumulation_steps"] == 2
