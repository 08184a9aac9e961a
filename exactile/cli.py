"""The command line. Commands read their arguments, call the library and print; nothing else.

Exit status: 0 solved, 2 bad input, 3 proved infeasible, 4 stopped by the limit without any mapping,
130 interrupted, 1 a bug of Exactile.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterable
from enum import IntEnum
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from exactile.solver.compare import Comparison
    from exactile.solver.solution import Solution

TRACEBACK_VARIABLE = "EXACTILE_TRACEBACK"


class ExitStatus(IntEnum):
    """What the process tells its caller."""

    SOLVED = 0
    BUG = 1
    BAD_INPUT = 2
    INFEASIBLE = 3
    NOTHING_FOUND = 4
    INTERRUPTED = 130


app = typer.Typer(
    name="exactile",
    help="Proved-optimal dataflow for cascades of Einsums on accelerators.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Problem = Annotated[
    str, typer.Argument(metavar="PROBLEM", help="A problem file, or the name of a built-in problem.")
]
TimeLimit = Annotated[
    str, typer.Option(metavar="TIME", help="Stop each search after this time, e.g. 60s or 5min.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change one entry, e.g. workload.ranks.m=1024. Repeatable."
    ),
]
Json = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE|-", help="Write JSON to a file; '-' prints it and nothing else."),
]
Picture = Annotated[
    Path | None,
    typer.Option("--picture", metavar="FILE.svg", help="Draw the cascade, coloured by fused group."),
]


@app.command()
def solve(
    problem: Problem,
    engine: Annotated[str, typer.Option(help="auto, or one of `exactile list engines`.")] = "auto",
    time_limit: TimeLimit = "120s",
    overrides: Overrides = None,
    json_file: Json = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the mapping as YAML.")] = None,
    certify: Annotated[
        bool, typer.Option("--certify", help="Ask another engine for a second proof.")
    ] = False,
    model: Annotated[
        Path | None,
        typer.Option("--write-model", metavar="FILE", help="Write the solver's model: .lp, .mps or .pb."),
    ] = None,
    picture: Picture = None,
) -> None:
    """Find the best mapping, prove it, verify it, and show it."""
    from exactile.load import dump_mapping, load_problem
    from exactile.running import solve as run

    seconds = _seconds(time_limit)
    _check_writable(out, model, _svg(picture), None if json_file == "-" else json_file)
    loaded = load_problem(problem, overrides=overrides or [])
    if model is not None:
        from exactile.solver.write_model import write_model

        write_model(loaded, model, engine)
    solution = run(loaded, engine, seconds, certify=certify)
    if out is not None and solution.mapping is not None:
        out.write_text(dump_mapping(loaded, solution.mapping), encoding="utf-8")
    if picture is not None and solution.mapping is not None:
        from exactile.drawing import picture as draw
        from exactile.report import status_text

        drawn = draw(loaded, solution.mapping, status=status_text(solution))
        picture.write_text(drawn, encoding="utf-8")
    if json_file is not None:
        from exactile.json_output import solution_json

        _write_json(solution_json(solution), json_file)
    if json_file != "-":
        from exactile.report import solution_report
        from exactile.terminal import show

        show(solution_report(solution))
    raise typer.Exit(_status(solution))


@app.command()
def compare(
    problems: Annotated[
        list[str], typer.Argument(metavar="PROBLEM…", help="Problem files, or names of built-in problems.")
    ],
    engines: Annotated[
        str | None, typer.Option(metavar="NAME,NAME", help="Engines to compare; all of them by default.")
    ] = None,
    time_limit: TimeLimit = "120s",
    overrides: Overrides = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as .md or .html.")
    ] = None,
    json_file: Json = None,
) -> None:
    """Let several engines solve the same problems: do they agree, and which is faster where?"""
    from exactile.compare_markdown import comparison_lines
    from exactile.compare_report import WRITERS
    from exactile.load import load_problems
    from exactile.running import compare as run
    from exactile.terminal import show

    seconds = _seconds(time_limit)
    if report is not None and report.suffix not in WRITERS:
        _fail(str(report), f"expected a file that ends in {' or '.join(WRITERS)}")
    _check_writable(report, None if json_file == "-" else json_file)
    names = None if engines is None else [name.strip() for name in engines.split(",") if name.strip()]
    comparison = run(load_problems(problems, overrides or []), names, seconds)
    if report is not None:
        report.write_text(WRITERS[report.suffix](comparison), encoding="utf-8")
    if json_file is not None:
        from exactile.compare_json import comparison_json

        _write_json(comparison_json(comparison), json_file)
    if json_file != "-":
        show(comparison_lines(comparison))
    raise typer.Exit(_comparison_status(comparison))


@app.command()
def check(
    problem: Problem,
    mapping: Annotated[
        Path, typer.Argument(metavar="MAPPING", help="A mapping file, as `solve --out` writes it.")
    ],
    replay: Annotated[
        bool, typer.Option("--replay", help="Run the loop nest and compare every count.")
    ] = False,
    against: Annotated[
        Path | None, typer.Option(metavar="MAPPING2", help="Show what this other mapping does better.")
    ] = None,
    overrides: Overrides = None,
    json_file: Json = None,
    picture: Picture = None,
) -> None:
    """Check a given mapping: every rule it breaks, or what it costs."""
    from exactile.checking import check_mapping
    from exactile.load import load_mapping, load_problem
    from exactile.terminal import show

    _check_writable(_svg(picture), None if json_file == "-" else json_file)
    loaded = load_problem(problem, overrides=overrides or [])
    ours = load_mapping(mapping, loaded)
    other = None if against is None else (str(against), load_mapping(against, loaded))
    result = check_mapping(loaded, ours, replay=replay, against=other)
    if picture is not None and result.cost is not None:
        from exactile.drawing import picture as draw

        picture.write_text(draw(loaded, ours), encoding="utf-8")
    if json_file is not None:
        _write_json(result.json(), json_file)
    if json_file != "-":
        show(result.report())
    raise typer.Exit(ExitStatus.SOLVED if result.legal else ExitStatus.BAD_INPUT)


@app.command("list")
def list_(
    what: Annotated[str, typer.Argument(metavar="KIND", help="workloads, hardware, problems or engines.")],
) -> None:
    """List what ships with Exactile."""
    from exactile.explain import listing
    from exactile.terminal import show

    show(listing(what))


@app.command("show")
def show_(
    name: Annotated[str, typer.Argument(metavar="FILE", help="A file, or the name of something built in.")],
    picture: Picture = None,
) -> None:
    """Explain one workload, machine, problem or mapping."""
    from exactile.explain import drawn, explain
    from exactile.terminal import show

    _check_writable(_svg(picture))
    lines = explain(name)
    if picture is not None:
        picture.write_text(drawn(name), encoding="utf-8")
    show(lines)


@app.callback(invoke_without_command=True)
def _options(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        from exactile.version import __version__

        typer.echo(__version__)
        raise typer.Exit


def main() -> NoReturn:
    """The command `exactile`: run, and turn every failure into a sentence and an exit status."""
    signal.signal(signal.SIGINT, _quit)
    if hasattr(signal, "SIGPIPE"):
        # the reader of our output has left (`exactile … | head`): end like any other program of a pipe
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # trees and signs must not fail where only ASCII is known
    try:
        app()
    except Exception as error:
        sys.exit(_explain_failure(error))
    sys.exit(ExitStatus.SOLVED)


def _quit(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(ExitStatus.INTERRUPTED)


def _explain_failure(error: Exception) -> ExitStatus:
    """Say what went wrong on standard error; the user's faults as sentences, ours as a bug."""
    from exactile.formulation.faults import InputError
    from exactile.formulation.units import NoUnitError
    from exactile.solver.engine import UnsupportedProblem

    if isinstance(error, InputError):
        for fault in error.faults:
            print(fault, file=sys.stderr)
        return ExitStatus.BAD_INPUT
    if isinstance(error, UnsupportedProblem | NoUnitError | OSError):
        print(error, file=sys.stderr)
        return ExitStatus.BAD_INPUT
    _show_traceback(error)
    _report_bug([f"internal error: {type(error).__name__}: {error}"])
    return ExitStatus.BUG


def _show_traceback(error: Exception | None) -> None:
    if error is not None and os.environ.get(TRACEBACK_VARIABLE):
        import traceback

        traceback.print_exception(error)


def _report_bug(sentences: Iterable[str]) -> None:
    print(
        *sentences,
        "This is a bug of Exactile: please report it with the command and the files that led here "
        f"({TRACEBACK_VARIABLE}=1 shows where it happened).",
        sep="\n",
        file=sys.stderr,
    )


def _status(solution: Solution) -> ExitStatus:
    if solution.interrupted:
        return ExitStatus.INTERRUPTED
    return {
        "optimal": ExitStatus.SOLVED,
        "feasible": ExitStatus.SOLVED,
        "infeasible": ExitStatus.INFEASIBLE,
        "unknown": ExitStatus.NOTHING_FOUND,
    }[solution.status]


def _comparison_status(comparison: Comparison) -> ExitStatus:
    """A wrong answer is a bug, even in a comparison that was interrupted."""
    from exactile.compare_summary import alarms

    if wrong := alarms(comparison):
        for _, answer in comparison.failures:
            _show_traceback(answer.failure)
        _report_bug(f"wrong answer: {sentence}" for sentence in wrong)
        return ExitStatus.BUG
    return ExitStatus.INTERRUPTED if comparison.interrupted else ExitStatus.SOLVED


def _seconds(text: str) -> float:
    """A time such as `60s`, `1.5 min` or `2h`; a bare number is seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|min|m|h)?\s*", text)
    if match is None:
        _fail("--time-limit", f"expected a time such as 60s or 5min, got {text!r}")
    return float(match[1]) * {"ms": 0.001, "s": 1, "min": 60, "m": 60, "h": 3600, None: 1}[match[2]]


def _check_writable(*files: Path | str | None) -> None:
    """Before the search, not after it: a result that cannot be written would be lost."""
    for file in files:
        if file is None:
            continue
        path = Path(file)
        if path.is_dir():
            _fail(str(file), "expected a file to write, this is a folder")
        if not path.parent.is_dir():
            _fail(str(file), f"the folder {path.parent} does not exist")


def _svg(file: Path | None) -> Path | None:
    """A file for a picture, which has one format."""
    if file is not None and file.suffix.lower() != ".svg":
        _fail(str(file), "expected a file that ends in .svg")
    return file


def _write_json(data: dict[str, Any], file: str) -> None:
    from exactile.json_output import dumps

    text = dumps(data) + "\n"
    if file == "-":
        sys.stdout.write(text)
    else:
        Path(file).write_text(text, encoding="utf-8")


def _fail(where: str, message: str) -> NoReturn:
    from exactile.formulation.faults import Fault, InputError

    raise InputError([Fault((where,), message)])
