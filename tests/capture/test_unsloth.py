"""Unsloth, which needs a GPU to import: it puts functions of its own into transformers' Trainer, after the probe's."""

from pathlib import Path

from capture.bundles import facts, ranges
from capture.scripts import TRAINER, run, said
from needs import needs

needs("transformers", "accelerate")

IN_ORDER = """
import inspect
import textwrap
import transformers.trainer
def _unsloth_get_batch_samples(self, batches, number, device=None, *args, **kwargs):
    return [batch for _, batch in zip(range(number), batches)], None
def _unsloth_pre_compute_loss(self, model, inputs, *args, **kwargs):
    return self._old_compute_loss(model, inputs, *args, **kwargs)
def written_anew(method, name):
    source = textwrap.dedent(inspect.getsource(getattr(Trainer, method)))
    exec(source.replace("def " + method, "def " + name, 1), vars(transformers.trainer))
    setattr(Trainer, method, vars(transformers.trainer)[name])
Trainer.get_batch_samples = _unsloth_get_batch_samples
Trainer._old_compute_loss = Trainer.compute_loss
Trainer.compute_loss = _unsloth_pre_compute_loss
written_anew("training_step", "_unsloth_training_step")
written_anew("_inner_training_loop", "_fast_inner_training_loop")
class UnslothTrainer(Trainer):
    pass
trainer(UnslothTrainer).train()
print(Trainer.training_step.__name__, Trainer._inner_training_loop.__name__, Trainer.get_batch_samples.__name__)
"""


def test_its_loop_has_the_steps_and_the_ranges_of_transformers(tmp_path: Path) -> None:
    done = run(TRAINER + IN_ORDER, tmp_path, {"at_step": 12})
    assert done.returncode == 0, done.stderr
    assert said(done) == []
    found = {name: len(spans) for name, spans in ranges(tmp_path / "out").items()}

    assert [name for name in found if name.startswith("Prof")] == [f"ProfilerStep#{step}" for step in (12, 13, 14)]
    assert found["diagnose.forward"] == found["diagnose.backward"] == 6
    assert found["diagnose.data_wait"] == found["diagnose.clip"] == found["diagnose.optimizer"] == 3
    assert facts(tmp_path / "out")["steps"]["source"] == "trainer"
    names = ["_unsloth_training_step", "_fast_inner_training_loop", "_unsloth_get_batch_samples"]
    assert done.stdout.splitlines()[-1].split() == names  # by which Unsloth tells what it has replaced
