"""The best MFU by model and number of GPUs: as text, as JSON, and on a page."""

import json
import re

import pytest
from click.testing import CliRunner

from diagnose.cli import main

MAP = "fit --heat-map --gpu H100 --model 1b,70b --gpus 8,16"


def run(line, code=0, **more):
    done = CliRunner().invoke(main, line.split(), prog_name="diagnose", **more)
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="module")
def heat():
    return json.loads(run(f"{MAP} --json").stdout)


def test_a_cell_is_the_best_configuration_that_fit_ranks_first(heat):
    alone = json.loads(run("fit --gpu H100 --model 1b --gpus 16 --json").stdout)
    cell = heat["rows"][0]["cells"][1]
    assert [cell["gpus"], cell["nodes"]] == [16, 2]
    assert cell["mfu_share"] == pytest.approx(alone["step"]["mfu_share"])
    assert cell["micro_batch"] == alone["plan"]["micro_batch"]


def test_a_cell_names_the_class_that_leads_and_the_largest_loss(heat):
    step = json.loads(run("fit --gpu H100 --model 1b --gpus 8 --json").stdout)["step"]
    cell = heat["rows"][0]["cells"][0]
    share = step["parts_s"][cell["largest_loss"]] / step["seconds"]
    assert cell["bound"] in ("compute", "communication", "memory", "host")
    assert cell["largest_loss_share"] == pytest.approx(share)
    assert cell["largest_loss"] != "matrix products"


def test_what_does_not_fit_has_no_mfu_and_the_reason(heat):
    cell = heat["rows"][1]["cells"][0]
    assert [cell["mfu_share"], cell["bound"], cell["because"]] == [None, None, "the job does not fit"]


def test_the_text_has_a_row_for_each_model_and_a_column_for_each_number(heat):
    lines = run(MAP).stdout.splitlines()
    assert [line.split() for line in lines if line.startswith(("GPUs", "nodes"))] == [
        ["GPUs", "8", "16"],
        ["nodes", "1", "2"],
    ]
    percents = [f"{100 * cell['mfu_share']:.0f}" if cell["mfu_share"] else "-" for cell in heat["rows"][1]["cells"]]
    assert next(line.split() for line in lines if line.startswith("Llama-3.1-70B")) == ["Llama-3.1-70B", *percents]


def test_a_narrow_terminal_gets_the_columns_in_blocks():
    text = run("fit --heat-map --gpu H100 --model 1b --gpus 8-64", env={"COLUMNS": "44"}).stdout
    assert max(map(len, text.splitlines())) <= 44
    assert len(re.findall(r"^GPUs", text, re.MULTILINE)) > 1


def test_the_page_holds_every_cell_and_loads_nothing(heat, tmp_path):
    run(f"{MAP} --html {tmp_path}/heat.html")
    page = (tmp_path / "heat.html").read_text()
    cells = [cell for row in heat["rows"] for cell in row["cells"]]
    shown = re.findall(r"<td[^>]*><strong>([-\d]+)</strong> ([\w ]+)</td>", page)
    assert shown == [
        (f"{100 * cell['mfu_share']:.0f}" if cell["bound"] else "-", cell["bound"] or "does not run") for cell in cells
    ]
    assert "default-src 'none'" in page.replace("&#39;", "'")
    assert not re.search(r"(src|href)=", page)


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("fit --heat-map --gpu H100 --model nope", 2, "no known model"),
        ("fit --heat-map --gpu H100 --tokens 1B", 2, "--tokens has no effect with --heat-map"),
        ("fit --heat-map --gpu H100 --nodes 2", 2, "--nodes is for one number of GPUs"),
        ("fit --model 1b --gpu H100 --html x.html", 2, "--html needs --heat-map"),
        ("fit --heat-map --gpu H100 --model 70b --gpus 1", 3, "does not fit"),
        ("fit --heat-map --gpu H100 --model facebook/opt-1.3b --gpus 8 --liger", 2, "--liger has no effect here"),
    ],
)
def test_a_map_that_cannot_be_made_is_refused(line, code, says):
    assert says in run(line, code).stderr
