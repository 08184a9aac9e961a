"""The report of a comparison: the command, what it writes, and that a reader gets every answer."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from exactile.cli import app
from exactile.compare_chart import chart
from exactile.compare_html import comparison_html
from exactile.compare_markdown import comparison_markdown
from exactile.compare_summary import summary
from exactile.compare_text import HEADER, cells, seconds, times
from exactile.formulation.faults import InputError
from exactile.solver.compare import Comparison, compare
from exactile.solver.engines import ENGINES
from exactile.solver.write_model import model_writer
from hand_made import problem

HERE = Path(__file__).parent
HAND_MADE = str(HERE / "hand_made.yaml")
FAKE = (sys.executable, str(HERE / "fake_main.py"))


pytestmark = pytest.mark.usefixtures("fakes")


def asked(*engines: str) -> Comparison:
    return compare([problem(), replace(problem("latency"), name="a|b & <c>")], engines, 0.05)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*FAKE, "compare", *arguments], capture_output=True, text=True, timeout=60)


# the command


def test_the_command_prints_a_summary_and_a_table_and_writes_the_report(tmp_path: Path) -> None:
    report, data = tmp_path / "report.md", tmp_path / "report.json"
    files = ("--report", str(report), "--json", str(data))
    done = run(HAND_MADE, "--engines", "honest,second,unsupported", *files)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert done.stdout.startswith("1 problem, 3 engines: the best mapping is proved for 1, for 1 by two")
    assert "not supported: the engine fake cannot search chains" in done.stdout
    text = report.read_text(encoding="utf-8")
    assert text.startswith("# ") and "**1 problem, 3 engines: the best" in text and "for m in 8 × 64" in text
    written = json.loads(data.read_text(encoding="utf-8"))
    assert (written["agree"], written["compared"]) == (True, 2)
    assert [result["engine"] for result in written["results"]] == ["honest", "second"]
    assert written["results"][0]["objective"]["value"] == written["problems"][0]["best"]
    assert set(written["problems"][0]["declined"]) == {"unsupported"}


def test_settings_and_json_alone() -> None:
    done = run(HAND_MADE, "--engines", "honest", "--set", "objective=latency", "--json", "-")
    assert done.returncode == 0 and done.stderr == ""
    assert json.loads(done.stdout)["results"][0]["objective"]["name"] == "latency"


@pytest.mark.parametrize("engine", ["slack", "infeasible", "broken", "too_optimistic"])
def test_a_wrong_answer_is_one_and_loud(engine: str, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    done = run(HAND_MADE, "--engines", f"honest,{engine}", "--report", str(report))
    assert done.returncode == 1
    assert done.stderr.startswith("wrong answer: ") and engine in done.stderr
    assert "please report" in done.stderr and "Traceback" not in done.stderr
    assert done.stdout.startswith("WRONG ANSWERS") and "Wrong answers" in report.read_text(encoding="utf-8")


def test_ctrl_c_prints_and_writes_the_rows_so_far(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    arguments = (HAND_MADE, HAND_MADE, "--engines", "honest,patient", "--json", "-", "--report", str(report))
    process = subprocess.Popen(
        [*FAKE, "compare", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None and process.stderr.readline() == "searching\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and stderr == ""
    answer = json.loads(stdout)
    assert answer["interrupted"] and [r["engine"] for r in answer["results"]] == ["honest", "patient"]
    assert answer["results"][1]["status"] == "feasible"
    assert "interrupted" in report.read_text(encoding="utf-8")


# what is written


class Page(HTMLParser):
    """Checks that every element is closed; counts table rows and what is drawn."""

    VOID = frozenset({"meta", "line", "circle"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_is_whole_and_has_every_answer() -> None:
    found = asked("honest", "second", "patient")
    page = Page()
    page.feed(comparison_html(found))
    assert page.open == []
    assert page.count["tr"] == 1 + 2 * 3
    assert page.count["circle"] == sum(len(row.solutions) for row in found.rows)
    text = "".join(page.words)
    assert "a|b & <c>" in text and "for m in 8 × 64" in text


def test_the_markdown_table_has_one_row_per_answer_and_no_stray_columns() -> None:
    found = asked("honest", "second", "unsupported")
    table = [line for line in comparison_markdown(found).splitlines() if line.startswith("|")]
    assert len(table) == 2 + 2 * 3
    assert {line.replace("\\|", "").count("|") for line in table} == {len(HEADER) + 1}


def test_the_name_of_a_problem_stands_once() -> None:
    (row, _) = asked("honest", "second").rows
    first, other = cells(row)
    assert first[0] == "attention" and other[:3] == ("", "", "")
    assert first[3] == "honest" and first[5] == "same" and first[6] == "optimal"


def test_a_gap_is_told_with_its_bound() -> None:
    (row, _) = asked("patient").rows
    (line,) = cells(row)
    assert line[5].endswith("(gap 50 %)") and line[6] == "feasible" and line[9] == "–"


def test_without_two_proofs_the_summary_claims_no_agreement() -> None:
    assert "nothing to compare" in summary(asked("honest", "patient"))[0]


def test_without_a_counted_space_there_is_no_chart() -> None:
    found = asked("honest")
    assert chart(found) is not None
    bare = replace(found, rows=tuple(replace(row, size=None) for row in found.rows))
    assert chart(bare) is None and "<svg" not in comparison_html(bare)


def test_points_lie_inside_the_picture() -> None:
    drawn = chart(asked("honest", "second", "patient"))
    assert drawn is not None
    for point in drawn.points:
        assert drawn.left <= point.x <= drawn.right and drawn.top <= point.y <= drawn.bottom
    assert {point.proved for point in drawn.points} == {True, False}


def test_numbers_as_people_write_them() -> None:
    assert [seconds(value) for value in (0.00012, 0.0412, 3.14159, 321.9)] == [
        "0.0001",
        "0.041",
        "3.14",
        "322",
    ]
    assert [times(value) for value in (1.0, 5.27, 1234.5)] == ["1.0", "5.3", "1 234"]


# a second proof and models, through `solve`


def test_a_second_proof_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENGINES.keys() - {"honest", "second"}:
        monkeypatch.delitem(ENGINES, name)
    done = CliRunner().invoke(app, ["solve", HAND_MADE, "--engine", "honest", "--certify"])
    assert done.exit_code == 0, done.output
    assert "optimal, proved by fake + second" in done.output
    assert "confirmed by second in " in done.output


@pytest.mark.parametrize("engine", ["second", "honest", "auto"])
def test_the_model_is_written_and_the_problem_solved(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`auto` writes with the engine that knows the format, whichever it solves with."""
    for name in ENGINES.keys() - {"honest", "second"}:
        monkeypatch.delitem(ENGINES, name)
    path = tmp_path / "model.mps"
    done = CliRunner().invoke(app, ["solve", HAND_MADE, "--engine", engine, "--write-model", str(path)])
    if engine == "honest":
        assert isinstance(done.exception, InputError) and not path.exists()
        assert str(done.exception).endswith("honest writes no model; second writes .lp, .mps")
        return
    assert done.exit_code == 0 and "optimal" in done.output, done.output
    assert path.read_text(encoding="utf-8") == "minimize energy\n"


def test_a_format_that_nobody_writes_names_those_there_are() -> None:
    with pytest.raises(InputError, match=r"second does not write a \.txt file; .*second writes \.lp, \.mps"):
        model_writer(Path("x.txt"), "second")
    with pytest.raises(InputError, match=r"no engine writes a \.txt file; .*second writes \.lp, \.mps"):
        model_writer(Path("x.txt"))
    with pytest.raises(InputError, match="no engine writes a file without a suffix"):
        model_writer(Path("x"))
