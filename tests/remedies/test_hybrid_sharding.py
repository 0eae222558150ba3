"""Sharding across nodes: the advice says what sharding inside a node takes of memory, and whether that fits."""

from pathlib import Path

from distributed_traces import GIB, MIB, gathers, train
from remedies.test_distributed import answer, finding, not_advised

from diagnose.diagnosis import Diagnosis


def sharded(folder: Path, reserved: int, record: dict[str, str] | None = None) -> Diagnosis:
    """16 ranks on two nodes gather shards over all of them."""
    return answer(
        train(gathers(400, shard=512 * MIB, group="1", ranks=range(16)), world=16, reserved=reserved), folder, record
    )


def fact(found: Diagnosis, name: str) -> object:
    return next(fact.value for fact in found.facts if fact.name == name)


def test_the_advice_says_what_a_whole_state_on_each_node_takes(tmp_path: Path) -> None:
    found = sharded(tmp_path, 16 * GIB)
    further, saved = fact(found, "hybrid_state_bytes"), fact(found, "unsharded_state_bytes")

    advised = finding(found, "sharded-across-nodes")

    assert isinstance(further, float)
    assert further * 15 == saved  # of 16 shards one is the rank's own, and the second node's counterpart comes to it
    assert advised is not None
    assert "HYBRID_SHARD" in advised.do
    assert "more on each GPU at 16 bytes per parameter. The memory suffices" in advised.do


def test_a_state_that_no_node_holds_is_not_advised(tmp_path: Path) -> None:
    found = sharded(tmp_path, 79 * GIB)

    assert finding(found, "sharded-across-nodes") is None
    assert "it does not fit" in not_advised(found)


def test_without_recorded_memory_it_is_unknown_whether_it_fits(tmp_path: Path) -> None:
    advised = finding(sharded(tmp_path, 0), "sharded-across-nodes")

    assert advised is not None
    assert "whether that fits is unknown here" in advised.do


def test_the_trainer_has_a_setting_of_its_own(tmp_path: Path) -> None:
    advised = finding(sharded(tmp_path, 16 * GIB, {"training_loop": "transformers Trainer"}), "sharded-across-nodes")

    assert advised is not None
    assert 'fsdp="hybrid_shard auto_wrap"' in advised.do
