"""The record says who makes the optimizer and the loader of a job: its trainer, the script, or DeepSpeed's config."""

from pathlib import Path

import pytest
from capture.bundles import facts
from capture.frameworks import DEEPSPEED, real_and_in_order
from capture.scripts import TRAINER, run

from diagnose.analysis import analyze

FRAMEWORK, SCRIPT = "transformers Trainer", "script"
real, _ = real_and_in_order("deepspeed", "deepspeed_order")
OWN_LOADER = """
class OwnLoader(Own):
    def get_train_dataloader(self):
        return torch.utils.data.DataLoader(data, batch_size=2, collate_fn=self.data_collator)
"""
ON_TOP = """
class OnTop(Own):
    def get_train_dataloader(self):
        return super().get_train_dataloader()
"""
OWN_OPTIMIZER = """
class OwnOptimizer(Own):
    def create_optimizer(self, *args):
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        return self.optimizer
"""
TRAINERS = {
    "the Trainer": ("trainer().train()", FRAMEWORK, FRAMEWORK),
    "an optimizer that is given": (
        "from functools import partial\n"
        "trainer(partial(Own, optimizers=(torch.optim.AdamW(model.parameters()), None))).train()",
        SCRIPT, FRAMEWORK,
    ),
    "a method that makes the optimizer": (OWN_OPTIMIZER + "trainer(OwnOptimizer).train()", SCRIPT, FRAMEWORK),
    "a method that makes the loader": (OWN_LOADER + "trainer(OwnLoader).train()", FRAMEWORK, SCRIPT),
    "a method that asks the Trainer": (ON_TOP + "trainer(OnTop).train()", FRAMEWORK, FRAMEWORK),
}  # fmt: skip


@pytest.mark.parametrize("how", TRAINERS)
def test_a_trainer_makes_what_the_script_does_not(how: str, tmp_path: Path) -> None:
    script, optimizer, loader = TRAINERS[how]
    done = run(f"{TRAINER}{script}\n", tmp_path, {})
    assert done.returncode == 0, done.stderr
    record = facts(tmp_path / "out")

    assert (record["optimizer"]["made_by"], record["dataloader"]["made_by"]) == (optimizer, loader)
    told = {fact.name: fact.value for fact in analyze(tmp_path / "out").facts}
    assert told["optimizer_made_by"] == ("bare loop" if optimizer == SCRIPT else FRAMEWORK)


CONFIG = """
def by_config():
    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 1))
    made = {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True, "fused": FUSED}}
    settings = config | {"optimizer": made}
    return deepspeed.initialize(model=model, model_parameters=model.parameters(), config=settings)[0]
"""


@pytest.mark.parametrize("package", [real])
@pytest.mark.parametrize(("fused", "word"), [(True, "True"), (None, "False")])
def test_deepspeed_makes_the_optimizer_of_its_config(
    package: str, fused: bool | None, word: str, tmp_path: Path
) -> None:
    script = DEEPSPEED + CONFIG.replace("FUSED", word) + "loop(by_config(), 75)\n"
    done = run(package + script, tmp_path, {}, fresh=True)
    assert done.returncode == 0, done.stderr
    optimizer = facts(tmp_path / "out")["optimizer"]

    assert optimizer["made_by"] == "DeepSpeed"
    assert bool(optimizer["fused"]) == bool(fused)
