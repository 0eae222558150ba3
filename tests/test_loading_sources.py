"""The sources of benchmarks/speed/load.py: what makes reading a trace more or less work, as its text says."""

import json
from pathlib import Path

from speed.compared import source_of
from speed.load import SAMPLE


def test_a_source_is_told_by_what_it_holds() -> None:
    told = source_of(SAMPLE)

    assert told.name == "synthetic-memory-bound.json.gz"
    assert told.shape.endswith(
        "events in 0.8 MB of text: 885 with operators' shapes, none with Python functions, none with compiled regions, "
        "none with Triton kernels"
    )


def test_a_compiled_source_is_told_by_its_regions_and_the_kernels_of_them(tmp_path: Path) -> None:
    names = {
        "cpu_op": ["CompiledFunction", "Torch-Compiled Region: 2/0", "triton_poi_fused_add_0", "aten::mm"],
        "kernel": ["triton_poi_fused_add_0", "gemm"],
    }
    events = [{"ph": "X", "cat": cat, "name": name} for cat, of_cat in names.items() for name in of_cat]
    (tmp_path / "a.json").write_text(json.dumps(events))

    told = source_of(tmp_path / "a.json")

    assert told.events == 6
    assert dict(told.holding) == {
        "operators' shapes": 0, "Python functions": 0, "compiled regions": 2, "Triton kernels": 1
    }  # fmt: skip
