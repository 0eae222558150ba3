"""The bill before the run, and the number of GPUs that a deadline or a budget asks for."""

import json

import pytest
from click.testing import CliRunner

from diagnose.cli import main
from diagnose.commands.fit.counts import GPU_COUNTS
from diagnose.predict import budgeting

JOB = "fit --model llama-3.1-8b --gpu H100 --stack nanotron"
SMALL = "fit --model llama-3.2-1b --gpu H100 --micro-batch 4"
PRICED = "--tokens 10e9 --gpu-hour-price 2 --power-w 700 --kg-per-kwh 0.4"


def run(line, code=0):
    done = CliRunner().invoke(main, line.split(), prog_name="diagnose")
    assert done.exit_code == code, done.output
    return " ".join((done.stdout if code == 0 else done.stderr).split())


def answer(line):
    done = CliRunner().invoke(main, [*line.split(), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


class Offer:
    """One number of GPUs: hours with ends 10 % away, at 2 for a GPU-hour."""

    def __init__(self, gpus, hours):
        self.gpus, self.hours = gpus, (0.9 * hours, hours, 1.1 * hours)
        self.gpu_hours = tuple(gpus * each for each in self.hours)
        self.price = tuple(2 * each for each in self.gpu_hours)


OFFERS = [Offer(8, 100), Offer(16, 52), Offer(32, 28), Offer(64, 20)]


def test_the_bill_is_that_of_the_predicted_rate():
    made = answer(f"{JOB} --gpus 16 --dp 8 --tp 2 --zero 1 --micro-batch 1 {PRICED}")
    bill, step = made["bill"], made["step"]
    hours = 10e9 / step["tokens_per_s"] / 3600
    assert bill["hours"][1] == pytest.approx(hours)
    assert bill["gpu_hours"][1] == pytest.approx(16 * hours)
    money = bill["money"]
    likely = [money["price"][1], money["kwh"][1], money["kg_co2e"][1]]
    assert likely == pytest.approx([32 * hours, 16 * 0.7 * hours, 16 * 0.7 * 0.4 * hours])


def test_the_ends_of_the_bill_are_those_of_the_step():
    made = answer(f"{JOB} --gpus 16 --dp 8 --tp 2 --zero 1 --micro-batch 1 {PRICED}")
    low, likely, high = made["bill"]["money"]["price"]
    best_s, worst_s = made["step"]["seconds_range"]
    assert [low / likely, high / likely] == pytest.approx(
        [each / made["step"]["seconds"] for each in (best_s, worst_s)]
    )


def test_each_ranked_configuration_has_its_bill():
    ranked = answer(f"{JOB} --gpus 8 {PRICED}")["ranked"]
    assert len(ranked) > 1
    assert all(each["bill"]["gpu_hours"][1] == pytest.approx(8 * each["bill"]["hours"][1]) for each in ranked)
    assert "10B tokens in" in run(f"{JOB} --gpus 8 {PRICED}")


@pytest.mark.parametrize("spelling", ["10e9", "10B", "10000M"])
def test_tokens_are_spelled_as_in_scaling(spelling):
    assert answer(f"{JOB} --gpus 8 --dp 2 --tp 4 --micro-batch 1 --tokens {spelling}")["bill"]["tokens"] == 10e9


def test_without_a_question_there_is_no_bill():
    made = answer(f"{JOB} --gpus 8 --dp 2 --tp 4 --micro-batch 1")
    assert [made["bill"], made["chosen_gpus"], made["by_gpus"]] == [None, None, []]


@pytest.mark.parametrize(
    ("deadline", "budget", "gpus", "meets"),
    [
        (60, None, 16, True),  # 32 and 64 are in time as well, and cost more
        (31, None, 32, True),
        (10, None, 64, False),  # the nearest is the fastest
        (None, 1900, 16, True),  # of 8 and 16, which it pays for, the faster; 32 may cost 1,971
        (None, 100, 8, False),  # the nearest is the cheapest
        (60, 1900, 16, True),
        (31, 1000, 64, False),
        (None, None, 8, True),
    ],
)
def test_the_number_of_gpus_for_a_purpose(deadline, budget, gpus, meets):
    offer, suits = budgeting.chosen(OFFERS, deadline, budget)
    assert (offer.gpus, suits) == (gpus, meets)


def test_a_choice_that_does_not_meet_the_purpose_says_the_nearest():
    assert "none does at the slow end of its range; the nearest is 64 GPUs" in budgeting.says(OFFERS, 10, None)
    assert budgeting.says(OFFERS, 60, None).startswith("within 2.5 days: the cheapest is 16 GPUs")


@pytest.mark.parametrize(
    ("given", "counts"),
    [
        ("16", 16),
        ("8,24,64", (8, 24, 64)),
        ("8-64", (8, 16, 24, 32, 40, 48, 56, 64)),
        ("2-16", (2, 4, 8, 16)),
        ("12-20", (12, 16, 20)),
        ("64-1024", (64, 96, 128, 192, 256, 384, 512, 768, 1024)),
    ],
)
def test_numbers_of_gpus_are_powers_of_two_and_whole_nodes(given, counts):
    assert GPU_COUNTS.convert(given, None, None) == counts


def test_a_deadline_chooses_among_the_numbers_and_plans_the_job_on_that():
    made = answer(f"{JOB} --gpus 8,16,32 --tokens 10B --deadline 30h --gpu-hour-price 2")
    slow = {each["plan"]["gpus"]: each["bill"]["hours"][2] for each in made["by_gpus"]}
    chosen = made["chosen_gpus"]
    assert set(slow) == {8, 16, 32}
    assert chosen["is_met"]
    assert slow[chosen["gpus"]] <= 30
    assert made["plan"]["gpus"] == chosen["gpus"]


def test_numbers_that_can_only_be_dearer_are_not_tried_unless_they_are_stated():
    open_, stated = (
        [each["plan"]["gpus"] for each in answer(f"{SMALL} {gpus} --tokens 10B --deadline 30d")["by_gpus"]]
        for gpus in ("", "--gpus 1-256")
    )
    assert len(open_) < len(stated)
    assert stated[-1] == 256
    assert open_ == stated[: len(open_)]


def test_a_deadline_that_nothing_meets_says_how_to_look_at_more():
    assert "--gpus 32-128 looks at more" in run(f"{SMALL} --gpus 8,16 --tokens 10T --deadline 1h")


def test_a_number_on_which_the_job_does_not_fit_is_left_out():
    made = answer(f"{JOB} --gpus 1,8 --tokens 10B --budget 5000 --gpu-hour-price 2")
    assert made["chosen_gpus"]["gpus"] == 8
    assert made["chosen_gpus"]["left_out"] == [{"gpus": 1, "because": "the job does not fit"}]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--gpus 8-4", "ends before it begins"),
        ("--gpus 8-16 --nodes 2", "--nodes states the machines of one number of GPUs"),
        ("--gpus 8 --deadline 3d", "--deadline needs --tokens"),
        ("--gpus 8 --tokens 1B --budget 100", "--budget needs --gpu-hour-price"),
        ("--gpus 8 --gpu-hour-price 2 --budget 100", "--budget needs --tokens"),
        ("--gpus 8 --kg-per-kwh 0.4", "--kg-per-kwh needs --power-w"),
        ("--gpus 8 --pue 1.2", "--pue needs --power-w"),
    ],
)
def test_half_a_question_is_refused(options, says):
    assert says in run(f"{JOB} {options}", code=2)


def test_a_range_of_gpus_is_refused_beside_a_table(tmp_path):
    (tmp_path / "t.csv").write_text("model,gpu,gpus,micro_batch\n1b,H100,8,1\n")
    assert "--gpus states several numbers" in run(f"fit --table {tmp_path}/t.csv --out {tmp_path}/o.csv --gpus 8-16", 2)
