"""`diagnose skill`: what it says is what its owners have, and an agent that follows it gets the right change."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from integrations.asked import session
from integrations.skill_text import Section, at, help_of, options_of, printed, schema_of, section, sections
from integrations.told import SAMPLES, diagnosed
from needs import needs
from test_docs import refused
from test_sample_traces import EXPECTED

from diagnose.cli import main
from diagnose.commands.agents import run_state
from diagnose.commands.agents.catalog import TOOLS
from diagnose.commands.tune.state import STATE
from diagnose.report.markdown import MOST_TOKENS

TEXT = printed()
RUN_RESOURCE = run_state.TEMPLATE.replace("{+path}", "FOLDER")
STEPS = ["1. Capture", "2. Read", "3. Explain", "4. Apply one change", "5. Compare"]
TRACES = {  # and a run after its change, or the same where no sample shows that
    "cpu-slow-loader.json.gz": "cpu-healthy.json.gz",
    "h200-llama-eager.json.gz": "h200-llama-eager.json.gz",
    "h200-misaligned-products.json.gz": "h200-misaligned-products.json.gz",
}
TRAINS = """
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.AdamW(model.parameters())
for batch, in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(400, 64)), batch_size=4):
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_it_has_the_form_that_agents_look_for() -> None:
    head = re.match(r"---\nname: ([a-z-]{1,64})\ndescription: (.{1,1024})\n---\n\n# ", TEXT)

    assert head is not None
    assert head[1] == "diagnose"
    assert len(TEXT.splitlines()) < 150


def is_owned(span: str, by: Section) -> bool:
    """Whether there is what a section sets as code: a command line, a key or its value, a file, an option, a word that
    the help of one of its commands has.
    """
    if span.startswith("diagnose "):
        return refused(span) is None
    if span.startswith("--"):
        return any(span in options_of(command) for command in by.commands)
    known = by.key(span) is not None or by.is_value(span) or span in (STATE, *TOOLS, RUN_RESOURCE)
    return known or any(span in help_of(command) for command in by.commands)


def test_every_command_option_key_and_value_is_there() -> None:
    spans = [(span, one) for one in sections() for span in one.spans]

    assert len(spans) > 50
    assert [span for span, one in spans if not is_owned(span, one)] == []
    assert [line for one in sections() for line in one.script.splitlines() if refused(line)] == []


def test_words_that_nobody_has_are_noticed() -> None:
    stale = ("diagnose rum -- x", "--stopp", "verdict.klass", "plan.rule", "undecidable", "tune.jsn", "torch-run")
    assert [span for span in stale if is_owned(span, Section("", "diagnose run"))] == []
    assert at(schema_of("analyze"), "plan[].rules") is None
    assert at(schema_of("analyze"), "plan[].patch.typed") is not None


def test_every_value_of_a_key_has_its_row() -> None:
    tables = [(one, key, listed) for one in sections() for key, listed in one.values.items()]

    assert [key for _, key, _ in tables] == ["next.kind", "not_judged[].captures[].kind", "verdict"]
    for one, key, listed in tables:
        known = one.key(key)
        assert known is not None
        assert sorted(listed) == sorted(known["enum"])


def test_the_length_and_the_exit_code_that_it_tells_are_those_of_their_owners() -> None:
    assert f"fewer than {MOST_TOKENS:,} tokens" in section("2. Read").text
    assert "ends with 3 before the job starts" in section("4. Apply one change").text
    assert "3 the patch of --apply cannot be used" in help_of("run")


def test_each_rule_has_one_of_the_three_answers() -> None:
    found = diagnosed("cpu-slow-loader.json.gz")
    fires, unknown = ({one["rule"] for one in found[part]} for part in ("findings", "not_judged"))
    listed = set(re.findall(r"^([\w-]+) ", CliRunner().invoke(main, ["rules"]).stdout, re.MULTILINE))

    assert fires & unknown == set()
    assert fires | unknown < listed
    assert all(one["because"] and one["captures"] for one in found["not_judged"])


@pytest.mark.long
@pytest.mark.parametrize(("trace", "after"), TRACES.items())
def test_an_agent_that_follows_it_is_told_the_labelled_change_first(trace: str, after: str) -> None:
    needs("mcp")
    tools, told = section("With the tools of `diagnose mcp`").tools, dict[str, str]()

    def arguments(tool: str) -> dict[str, str]:
        first = {"name": first_change(told["plan"])} if "plan" in told else {}
        given = {"path": trace, "before": trace, "after": after, "from_run": trace, **first}
        named = {**TOOLS[tool].named, **dict.fromkeys(set(TOOLS[tool].options) & {"from_run"})}
        return {name: given[name] for name in named}

    async def follows(client: Any) -> None:
        for tool in tools:
            result = await client.call_tool(tool, arguments(tool))
            told[tool] = result.content[0].text
            assert not result.is_error, told[tool]

    session([sys.executable, "-m", "diagnose", "mcp", "--root", str(SAMPLES)], follows)

    class_, _, rule = EXPECTED[trace]
    assert class_ in label(trace)
    assert told["analyze"].startswith(f"## diagnose: **{class_}**")
    assert first_change(told["plan"]) == first_change(told["analyze"]) == rule
    assert told["explain"].startswith(f"{rule} ")
    assert told["compare"].startswith("### no difference" if after == trace else "### B is ")


def first_change(answer: str) -> str:
    """The rule of the first change of an answer's plan."""
    found = re.search(r"^\*\*1\. .*?\*\*.*? · `([\w-]+)` · ", answer, re.MULTILINE)
    assert found is not None, answer
    return found[1]


def label(trace: str) -> str:
    """What must be found in a sample, as their list says."""
    name = trace.removesuffix(".json.gz")
    rows = (SAMPLES / "README.md").read_text(encoding="utf-8").splitlines()
    return next(row for row in rows if row.startswith(f"| `{name}` |")).rsplit("|", 2)[1]


@pytest.mark.capture
def test_its_commands_capture_read_explain_apply_and_compare(tmp_path: Path) -> None:
    """The commands of each step, as they stand; only the diagnosis that a change is taken from has a known fault."""
    needs("torch")
    (tmp_path / "train.py").write_text(TRAINS)
    done = [ran(STEPS[0], tmp_path)]
    known = diagnosed("cpu-slow-loader.json.gz")
    (tmp_path / "runs" / "before" / "diagnosis.json").write_text(json.dumps(known))
    done += [ran(step, tmp_path, RULE=known["plan"][0]["rule"]) for step in STEPS[1:]]

    assert [one.returncode for one in done] == [0] * len(STEPS), [one.stderr for one in done]
    read = json.loads((tmp_path / "before.json").read_text())
    keys = [span.split(".")[0].removesuffix("[]") for span in section(STEPS[1]).spans]
    assert {"verdict", "next", "plan", "not_judged", "speed"} <= set(keys) & read.keys()
    record = json.loads((tmp_path / "runs" / "after" / "capture-rank0.json").read_text())
    assert record["applied"] == {known["plan"][0]["patch"]["target"]: known["plan"][0]["patch"]["set"]}
    assert json.loads(done[-1].stdout)["verdict"] in section(STEPS[4]).values["verdict"]


def ran(step: str, folder: Path, **words: str) -> subprocess.CompletedProcess[str]:
    """The commands of a step, run by a shell, with these words in the place of others."""
    script = section(step).script
    for word, stands_for in words.items():
        script = script.replace(word, stands_for)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "-e", "-c", script]
    return subprocess.run(
        command, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False, timeout=300
    )


def written(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["skill", *words])
    return done.exit_code, done.stderr


def test_it_is_written_whole_and_never_over_another_unasked(tmp_path: Path) -> None:
    file = tmp_path / "new" / "skills" / "diagnose" / "SKILL.md"
    out = ("--out", str(file.parents[1]))

    assert written(*out) == (0, f"wrote {file}\n")
    assert file.read_text(encoding="utf-8") == TEXT
    file.write_text("the user's own")
    code, told = written(*out)
    assert (code, "pass --force to replace it" in told, file.read_text()) == (3, True, "the user's own")
    assert written(*out, "--force") == (0, f"wrote {file}\n")
    assert file.read_text(encoding="utf-8") == TEXT


def test_a_place_that_cannot_hold_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    code, told = written("--out", str(tmp_path / "file"))

    assert (code, "cannot write the skill" in told) == (3, True)
    assert os.listdir(tmp_path) == ["file"]
