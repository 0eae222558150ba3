"""Rule files: every way one can be wrong, and the folders that they are read from."""

import tomllib
from pathlib import Path

import pytest
from small_rules import CONDITIONS, EXAMPLES, GOOD, HEAD, MECHANISM, SMALL, known, written

from diagnose.rule import load_rule, load_rules
from diagnose.rule.condition import RuleError


def test_a_users_rule_is_added_and_replaces_the_builtin_of_its_name(tmp_path: Path) -> None:
    text = GOOD.replace("wait_share", "data_wait_share").replace("The GPU waits", "Mine")
    written(tmp_path, text)
    written(tmp_path, text, "brand-new")
    rules = {rule.id: rule for rule in load_rules([tmp_path], known())}
    assert rules["data-wait"].title == rules["brand-new"].title == "Mine"
    assert len(rules) == len(load_rules([], known())) + 1


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_folder_without_rules_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RuleError, match="no rule files"):
        load_rules([tmp_path / name], known())


# Every way a rule file can be wrong: the file with `old` replaced by `new`; the message names key and hint.


@pytest.mark.parametrize(
    ("old", "new", "key", "hint"),
    [
        ('title = "The', 'title = The', ", line 2", "not valid TOML"),
        ('name = "it waits"', 'name = "it waits', ", line 14", "not valid TOML"),
        ("[[example]]", "[[example", ", line 13", "not valid TOML"),
        ('title = "The', 'titel = "The', ": titel", "did you mean 'title'?"),
        ('title = "The GPU waits"', "", ": title", "missing key"),
        ('says = "wait is {wait_share} of the step"', "", ": says", "missing key"),
        ('unless = "It is the first step."', "", ": unless", "missing key"),
        ('title = "The GPU waits"', "title = 3", ": title", "expected text, got a number"),
        ('title = "The GPU waits"', 'title = ""', ": title", "empty"),
        ('class = "data"', 'class = "dada"', ": class", "did you mean 'data'?"),
        ('class = "data"', 'class = "?"', ": class", "one of data, host"),
        ('maturity = "stable"', 'maturity = "stabel"', ": maturity", "did you mean 'stable'?"),
        ('see = ["https', 'see = ["http', ": see[0]", "https://"),
        ("see = [", "numerics = 1\nsee = [", ": numerics", "expected true or false, got a number"),
        ('critical = "wait_share > 0.3"', "critical = 0.3", ": critical", "expected text, got"),
        ('critical = "wait_share >', 'critical = "wait_shar >', ": critical, column 1", "did you mean 'wait_share'?"),
        ('critical = "wait_share >', 'critical = "wait_share =', ": critical, column 12", "write == to compare"),
        ('warning = "wait_share > 0.1"', 'warning = "wait_share"', ": warning", "expected a condition, got share"),
        ('warning = "wait_share > 0.1"', 'warning = "1 < 2"', ": warning", "reads no fact"),
        (CONDITIONS, "", ": critical", "add critical, warning or info"),
        ("{wait_share} of", "{wait_shar} of", ": says", "did you mean 'wait_share'?"),
        ("{wait_share} of", "{wait_share:.0%} of", ": says", "did you mean 'wait_share'?"),
        ("{wait_share} of the step", "{steps:of}", ": says", "steps is no share"),
        ("Load sooner.", "Load {idle_shares}.", ": do", "did you mean 'idle_share'?"),
        ("Load sooner.", "Load {sooner", ": do", "lone brace"),
        ("It is the", "{x} is the", ": unless", "no fact is named 'x'"),
        ('see = [', 'needs = ["trainin"]\nsee = [', ": needs[0]", "did you mean 'training'?"),
        ("\n[[example]]", "\n[lines]\n[[example]]", ": lines", "add doing, calls, excess or phase"),
        ("\n[[example]]", '\n[lines]\ndoing = ["load"]\n[[example]]', ": lines.doing[0]", "did you mean 'loading'?"),
        ("\n[[example]]", '\n[lines]\ncalls = ["x()"]\n[[example]]', ": lines.calls", "'x()' is no name of a function"),
        ("\n[[example]]", '\n[lines]\nexcess = true\nif = "steps"\n[[example]]', ": lines.if", "expected a condition"),
        ("\n[[example]]", "\n[lines]\nexces = true\n[[example]]", ": lines.exces", "did you mean 'excess'?"),
        ("\n[[example]]", "\n[whatif]\n[[example]]", ": whatif", "nothing changes"),
        ("\n[[example]]", '\n[whatif]\nremove = "1"\n[[example]]', ": whatif.remove", "did you mean 'removes'?"),
        ("\n[[example]]", '\n[whatif]\nremoves = "x"\n[[example]]', ": whatif.removes", "no fact is named 'x'"),
        ("\n[[example]]", '\n[whatif]\nremoves = "steps"\n[[example]]', ": whatif.removes", "a share of the step"),
        ("\n[[example]]", "\n[whatif]\nhost = { sync = [0, 0.5] }\n[[example]]", ": whatif.assumes", "its assumes"),
        (
            "\n[[example]]", "\n[whatif]\nhost = { host-work = [0, 1], python = [0, 1] }\n[[example]]", ": whatif.host",
            "'python' has two factors",
        ),
        ("\n[[example]]", "\n[whatif]\nhost = { synk = [0, 1] }\n[[example]]", ": whatif.host", "named 'synk'"),
        ("\n[[example]]", "\n[whatif]\nkernels = { gems = [0, 1] }\n[[example]]", ": whatif.kernels", "named 'gems'"),
        (
            "\n[[example]]", "\n[whatif]\ncollectives = { sums = [0, 1] }\n[[example]]", ": whatif.collectives",
            "named 'sums'",
        ),
        ("\n[[example]]", '\n[whatif]\nfuses = ["all"]\n[[example]]', ": whatif.fuses", "named 'all'"),
        ("\n[[example]]", "\n[whatif]\nlaunches = [0.5, -1]\n[[example]]", ": whatif.launches", "zero or more"),
        ("\n[[example]]", '\n[whatif]\nlaunches = [0.5, "=x"]\n[[example]]', ": whatif.launches", "no fact is named"),
        ("\n[[example]]", '\n[whatif]\nlaunches = [0.5, "x"]\n[[example]]', ": whatif.launches", "starts with ="),
        ("\n[[example]]", "\n[patch]\nset = {a = 1}\n[[example]]", ": patch.target", "missing key"),
        ("\n[[example]]", '\n[patch]\ntarget = "ddq"\nset = {a = 1}\n[[example]]', ": patch.target", "'ddp'?"),
        ("\n[[example]]", '\n[patch]\ntarget = "ddp"\nset = {}\n[[example]]', ": patch.set", "sets nothing"),
        ("\n[[example]]", "\n[memory]\n[[example]]", ": memory", "nothing is divided otherwise"),
        ("\n[[example]]", '\n[memory]\nzero = "steps"\n[[example]]', ": memory.zero", "a text that starts with ="),
        ("\n[[example]]", "\n[memory]\nstage = 2\n[[example]]", ": memory.stage", "keys here: zero, replicas"),
        ("\n[[example]]", '\n[patch]\ntarget = "ddp"\nset = {a = [1]}\n[[example]]', ": patch.set.a", "expected text"),
        ("\n[[example]]", '\n[patch]\ntarget = "ddp"\nset = {a = "=x"}\n[[example]]', ": patch.set.a", "named 'x'"),
        ("\n[[example]]", '\n[patch]\ntarget = "ddp"\nif = "steps"\nset = {a = 1}\n[[example]]', ": patch.if",
         "expected a condition"),
        ("\n[[example]]", '\n[[not_when]]\nif = "steps > 1"\n[[example]]', ": not_when[0].because", "missing key"),
        ("\n[[example]]", '\n[[not_when]]\nif = "step > 1"\nbecause = "b"\n[[example]]', ": not_when[0].if",
         "did you mean 'steps'?"),
        ("\n[[example]]", '\n[[not_when]]\nif = "steps > 1"\nbecause = "{b}"\n[[example]]', ": not_when[0].because",
         "no fact is named 'b'"),
        ("\n[[example]]", '\n[not_when]\nif = "steps > 1"\nbecause = "b"\n[[example]]', ": not_when", "a list, got a"),
        ("\n[[example]]", '\n[negative]\nwhat = "optim"\n[[example]]', ": negative.because", "missing key"),
        ("\n[[example]]", '\n[negative]\nwhat = "optim"\nbecause = "{z}"\n[[example]]', ": negative.because", "'z'"),
        ("\n[[example]]", '\n[negative]\nwhat = "a"\nbecause = "b"\nif = "steps"\n[[example]]', ": negative.if",
         "expected a condition"),
        ("\n[[example]]", '\n[mechanism]\nwhy = "w"\n[[example]]', ": mechanism.source", "missing key"),
        ("\n[[example]]", MECHANISM.replace('"BW"', '"bw"') + "[[example]]", ": mechanism.term", "one of D, BW, O"),
        ("\n[[example]]", MECHANISM.replace('"data"', '"dat"') + "[[example]]", ": mechanism.axis", "mean 'data'?"),
        ("\n[[example]]", MECHANISM.replace("word " * 40, "one") + "[[example]]", ": mechanism.why", "1 words, not"),
        ("\n[[example]]", MECHANISM.replace("word ", "word " * 4) + "[[example]]", ": mechanism.why", "160 words, not"),
        ("\n[[example]]", MECHANISM.replace("word ", "{x} ") + "[[example]]", ": mechanism.why", "no fact is named"),
        ("\n[[example]]", MECHANISM.replace('"data"', '"none"') + "[[example]]", ": mechanism", "none together"),
        (EXAMPLES, "", ": example", "missing key"),
        (EXAMPLES, "example = []", ": example", "no example in which the rule fires"),
        ('expect = "quiet"', 'expect = "quite"', ": example[1].expect", "did you mean 'quiet'?"),
        ('expect = "quiet"', 'expect = "warning"', ": example[1].expect", "expects warning and gets quiet"),
        ('expect = "warning"', 'expect = "critical"', ": example[0].expect", "wait_share = 0.2"),
        ("wait_share = 0.0", "wait_share = 0.2", ": example[1].expect", "expects quiet and gets warning"),
        ("wait_share = 0.0", "", ": example[1].expect", "expects quiet and gets unknown"),
        ("wait_share = 0.0", "wait_shar = 0.0", ": example[1].facts.wait_shar", "did you mean 'wait_share'?"),
        ("wait_share = 0.0", 'wait_share = "none"', ": example[1].facts.wait_share", "is a number, not 'none'"),
        ("wait_share = 0.0", "wait_share = true", ": example[1].facts.wait_share", "is a number, not True"),
        ("wait_share = 0.0", "wait_share = [1]", ": example[1].facts.wait_share", "is a number, not [1]"),
        ("wait_share = 0.0", "has_workers = 1", ": example[1].facts.has_workers", "is a flag, not 1"),
        ("wait_share = 0.0", "optimizer_kind = 1", ": example[1].facts.optimizer_kind", "is a text, not 1"),
        ('name = "it does not"', "", ": example[1].name", "missing key"),
        ("facts = { wait_share = 0.0 }", "facts = 3", ": example[1].facts", "expected a table"),
    ],
)  # fmt: skip
def test_a_wrong_rule_file_is_refused(tmp_path: Path, old: str, new: str, key: str, hint: str) -> None:
    assert old in GOOD
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(RuleError) as caught:
        load_rule(path, SMALL)
    assert f"{path}{key}" in str(caught.value)
    assert hint in str(caught.value)


@pytest.mark.parametrize(("dropped", "hint"), [("it waits", "fires"), ("it does not", "stays quiet")])
def test_both_kinds_of_example_are_needed(tmp_path: Path, dropped: str, hint: str) -> None:
    kept = [part for part in EXAMPLES.split("\n\n") if dropped not in part]
    with pytest.raises(RuleError, match=f"no example in which the rule {hint}"):
        load_rule(written(tmp_path, HEAD + CONDITIONS + kept[0]), SMALL)


def test_a_rule_tells_its_mechanism(tmp_path: Path) -> None:
    rule = load_rule(written(tmp_path, HEAD + CONDITIONS + MECHANISM + EXAMPLES), SMALL)

    assert rule.mechanism is not None
    assert (rule.mechanism.term, rule.mechanism.axis) == ("BW", "data")
    assert len(rule.mechanism.why.split()) == 40


def test_a_rule_that_ships_without_its_mechanism_does_not_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, GOOD)
    monkeypatch.setattr("diagnose.rule.loading.builtin_rules", lambda: tmp_path)

    with pytest.raises(RuleError, match=r"add the table \[mechanism\]"):
        load_rule(path, SMALL)


def test_a_rule_about_the_capture_moves_no_term(tmp_path: Path) -> None:
    text = (HEAD + CONDITIONS + MECHANISM + EXAMPLES).replace('class = "data"', 'class = "validity"')

    with pytest.raises(RuleError, match="no rule of validity moves BW"):
        load_rule(written(tmp_path, text), SMALL)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RuleError, match="cannot be read"):
        load_rule(path, SMALL)


@pytest.mark.parametrize("name", ["Data_Wait", "data wait", "-data"])
def test_a_file_is_named_after_its_fault(tmp_path: Path, name: str) -> None:
    with pytest.raises(RuleError, match="named after its fault"):
        load_rule(written(tmp_path, GOOD, name), SMALL)


def test_the_page_about_rules_shows_a_rule_that_loads(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "writing-a-rule.md").read_text()
    text = page.split("```toml\n")[1].split("```")[0]
    assert tomllib.loads(text)
    assert load_rule(written(tmp_path, text), known()).judge({}).answer == "unknown"


def test_builtin_rules_are_not_held_to_their_examples_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, GOOD.replace('expect = "quiet"', 'expect = "critical"') + MECHANISM)
    monkeypatch.setattr("diagnose.rule.loading.builtin_rules", lambda: tmp_path)

    assert [rule.id for rule in load_rules([], SMALL)] == ["data-wait"]
    with pytest.raises(RuleError, match="expects critical and gets quiet"):
        load_rule(path, SMALL)
