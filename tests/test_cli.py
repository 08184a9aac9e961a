"""The command line through the real process: exit status, JSON, files, Ctrl-C, time limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from exactile.cli import main
from exactile.formulation.mapping import Mapping
from exactile.load import dump_mapping, load_mapping, load_problem
from hand_made import fused, problem, unfused

HERE = Path(__file__).parent
HAND_MADE = str(HERE / "hand_made.yaml")
REAL = (sys.executable, "-m", "exactile")
FAKE = (sys.executable, str(HERE / "fake_main.py"))


def exactile(*arguments: str, command: tuple[str, ...] = REAL) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60)


@dataclass(frozen=True)
class Done:
    """What a run of `main` inside this process left behind."""

    returncode: int
    stdout: str
    stderr: str


Call = Callable[..., Done]


@pytest.fixture
def called(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """`main` without a new process, for what a process would only make slower."""
    handler = signal.getsignal(signal.SIGINT)

    def call(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["exactile", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        return Done(int(stop.value.code or 0), out, err)

    yield call
    signal.signal(signal.SIGINT, handler)


def start(*arguments: str, command: tuple[str, ...] = FAKE) -> subprocess.Popen[str]:
    return subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def written(folder: Path, mapping: Mapping, name: str = "mapping.yaml") -> str:
    path = folder / name
    path.write_text(dump_mapping(load_problem(HAND_MADE), mapping), encoding="utf-8")
    return str(path)


def test_the_file_is_the_problem_of_the_other_tests() -> None:
    loaded = load_problem(HAND_MADE)
    assert loaded.cascade.einsums == problem().cascade.einsums
    assert (loaded.hardware, loaded.objective, loaded.mapspace) == (
        problem().hardware,
        problem().objective,
        problem().mapspace,
    )


# solve


def test_solve_prints_the_answer() -> None:
    done = exactile("solve", "bert-base-attention")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "status        optimal, proved by mmee" in done.stdout
    assert "for h in 12 × 1" in done.stdout
    assert "\x1b" not in done.stdout


def test_solve_json_alone() -> None:
    done = exactile("solve", "bert-base-attention", "--json", "-")
    assert done.returncode == 0 and done.stderr == ""
    answer = json.loads(done.stdout)
    assert list(answer) == [
        "version",
        "problem",
        "engine",
        "choice",
        "status",
        "interrupted",
        "objective",
        "bound",
        "gap",
        "proof",
        "certificate",
        "reason",
        "seconds",
        "trace",
        "space",
        "cost",
        "fates",
        "verified",
        "mapping",
    ]
    assert answer["engine"] == "mmee" and answer["status"] == "optimal" and answer["gap"] == 0
    assert answer["objective"]["value"] == answer["bound"]
    assert answer["verified"] == {"legal": True, "rescored": True, "replayed": True}
    assert set(answer["space"]) == {"structures", "tilings", "evaluated", "groups", "unlisted"}
    assert {"total", "search", "verify"} <= set(answer["seconds"])
    cost = answer["cost"]
    assert {"energy", "cycles", "dram_values", "dram_bytes", "macs", "peak_bytes"} <= set(cost)
    total = sum(level["energy"] for level in cost["by_level"].values())
    assert total == pytest.approx(cost["energy"], rel=1e-12)
    assert cost["macs"] == 2 * 12 * 512 * 512 * 64
    assert answer["mapping"]["groups"]


def test_integers_stay_exact(called: Call) -> None:
    """Every quantity of the unit-free machine is an integer, far above 2**31 and not rounded."""
    done = called("solve", "crosscheck-h32-2048", "--json", "-")
    answer = json.loads(done.stdout)
    assert answer["objective"] == {
        "name": "energy",
        "value": 117725724672,
        "exact": "117725724672",
        "unit": "1",
    }


def test_settings_change_the_problem(called: Call) -> None:
    arguments = (
        "--set",
        "workload.tokens=128",
        "--set",
        'hardware.levels.GLB.capacity="64 KiB"',
        "--json",
        "-",
    )
    done = called("solve", "bert-base-attention", *arguments)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cost"]["macs"] == 2 * 12 * 128 * 128 * 64


def test_the_mapping_file_can_be_checked(tmp_path: Path) -> None:
    out, data = tmp_path / "best.yaml", tmp_path / "answer.json"
    done = exactile("solve", "bert-base-attention", "--out", str(out), "--json", str(data))
    assert done.returncode == 0 and "Group" in done.stdout
    checked = exactile("check", "bert-base-attention", str(out), "--replay", "--json", "-")
    assert checked.returncode == 0, checked.stderr
    answer, check = json.loads(data.read_text()), json.loads(checked.stdout)
    assert check["legal"] and check["cost"] == answer["cost"]
    assert check["replayed"].startswith("scaled down to")


def test_infeasible_is_three_and_says_why(called: Call) -> None:
    done = called(
        "solve", "bert-base-attention", "--set", 'hardware.levels.GLB.capacity="2 B"', "--json", "-"
    )
    assert done.returncode == 3, done.stderr
    answer = json.loads(done.stdout)
    assert answer["status"] == "infeasible"
    assert "GLB" in answer["reason"] and "2 B" in answer["reason"]
    assert answer["objective"]["value"] is None
    assert all(answer[key] is None for key in ("bound", "gap", "cost", "mapping"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("solve", "bert-base-atention"), "bert-base-attention"),
        (("solve", HAND_MADE, "--engine", "mme"), "unknown engine 'mme'; did you mean 'mmee'?"),
        (
            ("solve", HAND_MADE, "--time-limit", "soon"),
            "--time-limit: expected a time such as 60s",
        ),
        (
            ("solve", HAND_MADE, "--out", "/no/such/folder/x.yaml"),
            "the folder /no/such/folder does not exist",
        ),
        (("solve", HAND_MADE, "--json", "/"), "expected a file to write, this is a folder"),
        (("solve", HAND_MADE, "--set", "workload.ranks.m=-3"), "expected a positive integer, got -3"),
        (("solve", HAND_MADE, "--write-model", "/no/such/folder/x.lp"), "/no/such/folder does not exist"),
        (("solve", HAND_MADE, "--write-model", "x.txt"), "no engine writes a .txt file"),
        (("solve", HAND_MADE, "--engine", "mmee", "--write-model", "x.lp"), "mmee writes no model"),
        (("solve", HAND_MADE, "--picture", "/no/such/folder/x.svg"), "/no/such/folder does not exist"),
        (("solve", HAND_MADE, "--picture", "x.png"), "x.png: expected a file that ends in .svg"),
        (("check", HAND_MADE, "missing.yaml", "--picture", "x"), "expected a file that ends in .svg"),
        (("show", "nvdla-like", "--picture", "x.svg"), "nvdla-like: a machine has no cascade to draw"),
        (("compare", HAND_MADE, "--engines", "mme"), "unknown engine 'mme'; did you mean 'mmee'?"),
        (("compare", HAND_MADE, "--report", "x.txt"), "expected a file that ends in .md or .html"),
        (("compare", HAND_MADE, "bert-base-atention"), "bert-base-attention"),
        (("compare",), "PROBLEM"),
        (("check", HAND_MADE, "missing.yaml"), "missing.yaml"),
        (("list", "problem"), "did you mean 'problems'?"),
        (("show", "nothing-of-the-kind"), "nothing-of-the-kind"),
        (("solve",), "PROBLEM"),
        (("sove", HAND_MADE), "sove"),
        (("solve", HAND_MADE, "--sett", "a=1"), "--sett"),
    ],
)
def test_bad_input_is_two_and_a_sentence(called: Call, arguments: tuple[str, ...], message: str) -> None:
    done = called(*arguments)
    assert done.returncode == 2, done.stdout
    assert message in done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""


def test_bad_input_leaves_no_traceback_in_a_real_process() -> None:
    done = exactile("solve", HAND_MADE, "--set", "workload.ranks.m=-3")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.splitlines() == [line for line in done.stderr.splitlines() if "-3" in line]


def test_all_faults_are_told(called: Call, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(Path(HAND_MADE).read_text().replace("m: 509", "m: -3").replace("1 MiB", "1 parsec"))
    done = called("solve", str(path))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) >= 2
    assert all(line.startswith(f"{path}:") for line in done.stderr.splitlines())


# check


def test_check_prints_the_cost(called: Call, tmp_path: Path) -> None:
    done = called("check", HAND_MADE, written(tmp_path, fused()), "--replay")
    assert done.returncode == 0, done.stderr
    assert "legal, counts and numbers confirmed by a replay scaled down to" in done.stdout
    assert "for m in 8 × 64 (last 61)" in done.stdout


def test_check_prints_all_violations(called: Call, tmp_path: Path) -> None:
    path = Path(written(tmp_path, fused()))
    other_tile = path.read_text().replace("{rank: n, tile: 128}", "{rank: n, tile: 64}", 1)
    path.write_text(other_tile.replace("unit: vector", "unit: array"))
    done = called("check", HAND_MADE, str(path))
    assert done.returncode == 2, done.stdout
    assert "the mapping is not legal: it breaks" in done.stdout and done.stderr == ""
    sentences = [line.strip() for line in done.stdout.splitlines()[2:]]
    assert any("array" in sentence and "P" in sentence for sentence in sentences)
    assert any("n" in sentence and "64" in sentence and "128" in sentence for sentence in sentences)


def test_check_against_another_mapping(called: Call, tmp_path: Path) -> None:
    ours, other = written(tmp_path, unfused(), "ours.yaml"), written(tmp_path, fused(), "other.yaml")
    done = called("check", HAND_MADE, ours, "--against", other)
    assert done.returncode == 0, done.stderr
    assert "other.yaml needs 60 % less energy" in done.stdout
    data = json.loads(called("check", HAND_MADE, ours, "--against", other, "--json", "-").stdout)
    first = data["against"]["differences"][0]
    assert (first["level"], first["tensor"], first["values"]) == ("DRAM", "S", [2 * 2 * 509 * 512, 0])


# list and show


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ("workloads", "bert-base-attention"),
        ("hardware", "nvdla-like"),
        ("problems", "bert-base-attention"),
        ("engines", "mmee"),
    ],
)
def test_list(called: Call, what: str, name: str) -> None:
    done = called("list", what)
    assert done.returncode == 0 and done.stderr == ""
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert name in names


def test_show(called: Call, tmp_path: Path) -> None:
    machine = called("show", "nvdla-like")
    assert machine.returncode == 0 and "1 MiB" in machine.stdout
    workload = called("show", str(HERE.parent / "workloads" / "bert_base_attention.yaml"))
    assert workload.returncode == 0 and "S[h,m,n] = Q[h,m,e] * K[h,n,e]" in workload.stdout
    asked = called("show", HAND_MADE)
    assert asked.returncode == 0 and "minimise energy" in asked.stdout
    mapping = called("show", written(tmp_path, fused()))
    assert mapping.returncode == 2 and "exactile check PROBLEM MAPPING" in mapping.stderr


def test_version_and_help() -> None:
    import exactile as package

    assert exactile("--version").stdout.strip() == package.__version__
    assert "solve" in exactile("--help").stdout


# the time limit, Ctrl-C, and bugs: with engines that do as they are told


def test_time_limit_with_a_mapping_is_zero_with_its_gap() -> None:
    done = exactile("solve", HAND_MADE, "--engine", "patient", "--time-limit", "200ms", command=FAKE)
    assert done.returncode == 0, done.stderr
    assert "feasible, gap 50 %: nothing is below " in done.stdout


def test_time_limit_without_a_mapping_is_four() -> None:
    done = exactile("solve", HAND_MADE, "--engine", "fruitless", "--time-limit", "0.2s", command=FAKE)
    assert done.returncode == 4, done.stderr
    assert "no mapping found within the time limit" in done.stdout


def await_word(process: subprocess.Popen[str], word: str) -> None:
    """Wait until the engine says a word on standard error."""
    assert process.stderr is not None
    heard = process.stderr.readline().strip()
    assert heard == word, heard + process.stderr.read()


def interrupt(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Ctrl-C in the middle of the search."""
    await_word(process, "searching")
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    return process.communicate(timeout=60)


def test_ctrl_c_prints_and_writes_the_best_so_far(tmp_path: Path) -> None:
    out = tmp_path / "best.yaml"
    process = start("solve", HAND_MADE, "--engine", "patient", "--out", str(out), "--json", "-")
    stdout, stderr = interrupt(process)
    assert process.returncode == 130, stderr
    answer = json.loads(stdout)
    assert answer["interrupted"] and answer["status"] == "feasible" and answer["gap"] == 0.5
    assert load_mapping(out, load_problem(HAND_MADE)) == fused()
    assert stderr == ""


def test_ctrl_c_without_a_mapping() -> None:
    process = start("solve", HAND_MADE, "--engine", "fruitless")
    stdout, stderr = interrupt(process)
    assert process.returncode == 130 and stderr == ""
    assert "no mapping found, interrupted" in stdout


def test_second_ctrl_c_kills() -> None:
    process = start("solve", HAND_MADE, "--engine", "deaf")
    await_word(process, "searching")
    process.send_signal(signal.SIGINT)
    await_word(process, "so what")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT and stderr == ""


def test_ctrl_c_while_the_real_engine_searches() -> None:
    """All tile sizes of a large attention keep the engine busy for many seconds."""
    large = ("--set", "mapspace.tile_sizes=all", "--set", "workload.tokens=16384")
    process = start("solve", "gpt3-6.7b-attention", "--engine", "real", *large, "--json", "-")
    stdout, stderr = interrupt(process)
    assert process.returncode == 130, stderr
    answer = json.loads(stdout)
    assert answer["interrupted"] and answer["status"] in ("feasible", "unknown")


def test_a_bug_is_one_and_asks_for_a_report() -> None:
    done = exactile("solve", HAND_MADE, "--engine", "broken", command=FAKE)
    assert done.returncode == 1
    assert "internal error: ZeroDivisionError" in done.stderr and "please report" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_answer_is_a_bug_not_a_result() -> None:
    done = exactile("solve", HAND_MADE, "--engine", "too_optimistic", command=FAKE)
    assert done.returncode == 1 and "claims the optimum" in done.stderr and done.stdout == ""


def test_what_an_engine_cannot_search_is_bad_input() -> None:
    done = exactile("solve", HAND_MADE, "--engine", "unsupported", command=FAKE)
    assert done.returncode == 2 and "cannot search chains" in done.stderr


def test_a_terminal_gets_colours_and_progress() -> None:
    """Standard output and standard error on a pseudo-terminal."""
    import pty

    main_end, process_end = pty.openpty()
    arguments = [*FAKE, "solve", HAND_MADE, "--engine", "patient", "--time-limit", "300ms"]
    with subprocess.Popen(arguments, stdout=process_end, stderr=process_end) as process:
        os.close(process_end)
        shown = b""
        while chunk := _read(main_end):
            shown += chunk
    os.close(main_end)
    assert process.returncode == 0
    assert b"\x1b[" in shown
    assert shown.index(b"Ctrl-C stops") < shown.index(b"status")


def _read(descriptor: int) -> bytes:
    """What a pseudo-terminal shows next; nothing when the process has ended."""
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""


def test_an_ascii_terminal_is_no_bug() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    command = [*FAKE, "solve", HAND_MADE, "--engine", "honest"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and "status" in done.stdout, done.stderr


def test_a_reader_that_leaves_is_no_bug() -> None:
    """`exactile list problems | head -1` must not print an internal error."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*REAL, "list", "problems"], stdout=write, stderr=subprocess.PIPE, text=True, env=environment
    )
    os.close(write)
    assert done.returncode == -signal.SIGPIPE
    assert "Traceback" not in done.stderr and "internal error" not in done.stderr
