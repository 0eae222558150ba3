"""The DataLoader of the training loop is found, others are passed over, and the job hears nothing of the end."""

import json
from pathlib import Path

import pytest
from capture.scripts import said
from data_pipeline.jobs import SIMPLE, ended, measured
from needs import needs

from diagnose.commands.data.measured import passed_over
from diagnose.probes.pipeline.asked import MEASURED, PASSED_OVER

pytestmark = pytest.mark.capture

TRAIN = "train(DataLoader(torch.ones(4000, 8), batch_size=8))\n"


def test_no_handler_of_the_job_hears_of_the_end(tmp_path: Path) -> None:
    script = f"""
import atexit
atexit.register(print, "exit function")
try:
    {TRAIN}
except BaseException:
    print("handler")
finally:
    print("finally")
"""
    done = ended(SIMPLE + script, tmp_path, seconds=1)

    assert (done.returncode, done.stdout) == (0, "")
    assert said(done) == [
        "diagnose: the script's loop asks for its first batch: the input is measured for about 1 s, nothing is trained"
    ]


def test_evaluation_and_statistics_before_training_are_passed_over(tmp_path: Path) -> None:
    script = """
for batch in DataLoader(torch.zeros(64, 8), batch_size=64):
    print("statistics")
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with torch.no_grad():
    for batch in DataLoader(torch.zeros(64, 8), batch_size=64):
        print("without gradients")
model.eval()
for batch in DataLoader(torch.zeros(64, 8), batch_size=64):
    print("evaluated")
model.train()
for batch in DataLoader(torch.ones(4000, 8), batch_size=8):
    print("trained")
"""
    done = ended(SIMPLE + script, tmp_path, seconds=1)
    left = passed_over(tmp_path / PASSED_OVER).loaders

    assert done.stdout.split("\n") == ["statistics", "without gradients", "evaluated", ""]
    assert json.loads((tmp_path / MEASURED).read_text())["batch_size"] == 8
    assert [each.because for each in left] == [
        "there is no optimizer yet",
        "gradients are off",
        "the model is set to evaluate",
    ]


def test_a_loop_that_is_told_late_is_measured_before_its_first_step(tmp_path: Path) -> None:
    script = """
batches = iter(DataLoader(torch.ones(4000, 8), batch_size=8))
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(next(batches)).mean().backward()
optimizer.step()
print("trained")
"""
    assert measured(SIMPLE + script, tmp_path, seconds=1).batch_size == 8


def test_a_loader_can_be_chosen_by_its_number(tmp_path: Path) -> None:
    script = "list(DataLoader(torch.ones(8, 8), batch_size=8))\nlist(DataLoader(torch.ones(400, 8), batch_size=4))\n"

    assert measured(SIMPLE + script, tmp_path, seconds=1, loader=2).batch_size == 4


def test_training_without_a_loader_ends_before_the_step(tmp_path: Path) -> None:
    script = "model = nn.Linear(8, 1)\ntorch.optim.SGD(model.parameters(), lr=0.1).step()\nprint('trained')\n"
    done = ended(SIMPLE + script, tmp_path)

    assert (done.returncode, done.stdout) == (0, "")
    assert passed_over(tmp_path / PASSED_OVER).trains
    assert not (tmp_path / MEASURED).exists()


def test_what_the_dataset_raises_first_is_the_jobs_own(tmp_path: Path) -> None:
    script = """
class Broken(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        raise OSError("no such image")
train(DataLoader(Broken(), batch_size=8))
"""
    done = ended(SIMPLE + script, tmp_path)

    assert done.returncode == 1
    assert "OSError: no such image" in done.stderr
    assert not (tmp_path / MEASURED).exists()


def test_a_batch_that_takes_long_is_loaded_once_more_and_nothing_else_is_tried_with_it(tmp_path: Path) -> None:
    script = """
class Slow(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        time.sleep(0.6)
        return torch.ones(8)
train(DataLoader(Slow(), batch_size=1, num_workers=2))
"""
    found = measured(SIMPLE + script, tmp_path, seconds=1)

    assert found.fetch.samples == 1
    assert "raise --seconds to" in found.lock.because
    assert [(each.workers, "raise --seconds to" in each.because) for each in found.workers] == [(1, True), (2, True)]


def test_a_sample_that_fails_later_ends_the_loading_and_is_told(tmp_path: Path) -> None:
    script = """
class Broken(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        if index == 100:
            raise OSError("no such image")
        return torch.ones(8)
train(DataLoader(Broken(), batch_size=8))
"""
    found = measured(SIMPLE + script, tmp_path, seconds=6)  # so that a busy host gets as far

    assert found.stopped == "a sample could not be loaded: OSError: no such image"
    assert found.fetch.samples == 88


def test_only_the_first_rank_measures(tmp_path: Path) -> None:
    done = ended("import os\nos.environ.update(RANK='1', WORLD_SIZE='2')\n" + SIMPLE + TRAIN, tmp_path)

    assert (done.returncode, done.stdout) == (0, "")
    assert not (tmp_path / MEASURED).exists()


def test_the_trainer_is_measured_before_its_callbacks_hear_of_training(tmp_path: Path) -> None:
    needs("transformers", "accelerate")
    script = """
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments
from diagnose.probes.pipeline import trainer_begin
trainer_begin.install()
class Says(TrainerCallback):
    def on_train_begin(self, *args, **kwargs):
        print("trained")
config = LlamaConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
                     intermediate_size=32, vocab_size=64)
rows = torch.randint(0, 64, (120, 8))
arguments = TrainingArguments(output_dir=sys.argv[1] + "/out", per_device_train_batch_size=2, use_cpu=True,
                              gradient_accumulation_steps=4, report_to=[], disable_tqdm=True)
data = [{"input_ids": row, "labels": row, "attention_mask": torch.tensor([1] * 6 + [0] * 2)} for row in rows]
Trainer(LlamaForCausalLM(config), arguments, train_dataset=data, callbacks=[Says()]).train()
"""
    found = measured(SIMPLE + script, tmp_path)

    assert (found.loop, found.batches_per_step, found.batch_size) == ("transformers' Trainer", 4, 2)
    assert found.lengths.batches[0] == (2, 8)
    assert set(found.lengths.samples) == {6}
    assert list((tmp_path / "out").iterdir()) == []
