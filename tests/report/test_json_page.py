"""docs/json.md: its example is what the schema describes, and its tables name what there is."""

import json
import re
from pathlib import Path

import diagnoses
import jsonschema
import msgspec

from diagnose.diagnosis import Diagnosis, FactReport
from diagnose.report.tables import tables_of

PAGE = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")


def test_the_example_fits_the_schema_with_every_key() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)

    jsonschema.validate(json.loads(example), Diagnosis.schema())
    msgspec.json.decode(example, type=Diagnosis)
    assert json.loads(example).keys() == Diagnosis.schema()["$defs"]["Diagnosis"]["properties"].keys()


def test_the_page_names_every_key_and_every_table() -> None:
    rows = "".join(line for line in PAGE.splitlines(keepends=True) if line.startswith("| `"))

    named = set(re.findall(r"`(\w+)`", rows))
    keys = Diagnosis.schema()["$defs"]["Diagnosis"]["properties"].keys() - {"schema_version"}
    assert named >= keys | tables_of(diagnoses.diagnosis()).keys()


def test_a_fact_keeps_its_kind_through_json() -> None:
    facts = tuple(FactReport(name="f", value=value, unit="u") for value in (0.5, True, "none", None))

    read = msgspec.json.decode(msgspec.json.encode(facts), type=tuple[FactReport, ...])

    assert [(fact.value, type(fact.value)) for fact in read] == [(fact.value, type(fact.value)) for fact in facts]
