"""The ladder: every engine on problems of growing size, and where solving overtakes enumeration.

    python bench/ladder.py [--engines mmee,cpsat] [--time-limit 60] [--only 'head-*'] [--max-pairs milp=1e7]
                           [--report ladder.md] [--json ladder.json]

Each answer is told on standard error as it comes, the Markdown table grows on standard output, and a summary
ends it. Ctrl-C ends it early with everything so far. `--list` only counts the spaces. The exit status is that
of `exactile compare`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

import exactile as ex
from exactile.compare_markdown import table_head, table_row
from exactile.compare_report import WRITERS
from exactile.compare_summary import alarms, summary
from exactile.compare_text import cells, seconds, space
from exactile.formulation.faults import InputError
from exactile.running import compare
from exactile.solver.compare import Answer, Comparison, Row, Watcher
from exactile.solver.engine import Size
from exactile.solver.engines import count
from rungs import ladder


class Live(Watcher):
    """Prints what happens as it happens."""

    def __init__(self) -> None:
        self.start = time.monotonic()

    def answered(self, problem: ex.Problem, size: Size | None, answer: Answer) -> None:
        solution = answer.solution
        if solution is None:
            said = answer.reason if answer.failure is None else f"FAILED: {answer.reason}"
        else:
            said = f"{solution.status} in {seconds(answer.seconds or 0.0)} s"
        at = f"{time.monotonic() - self.start:7.1f} s"
        print(f"{at}  {problem.name}: {answer.engine}: {said}", file=sys.stderr, flush=True)

    def compared(self, row: Row) -> None:
        for line in cells(row):
            print(table_row(line), flush=True)
        for sentence in row.contradictions:
            print(f"WRONG: {sentence}", file=sys.stderr, flush=True)


def chosen(pattern: str) -> list[ex.Problem]:
    """The rungs whose name matches; without wildcards the pattern may stand anywhere in the name."""
    wanted = pattern if any(sign in pattern for sign in "*?[") else f"*{pattern}*"
    return [problem for problem in ladder() if fnmatch(problem.name, wanted)]


def limits(text: str) -> dict[str, int]:
    """`milp=1e7,mmee=1e10` as numbers of pairs."""
    pairs = (part.partition("=") for part in text.split(",") if part)
    return {name.strip(): int(float(most)) for name, _, most in pairs}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Every engine on problems of growing size.")
    parser.add_argument("--engines", help="names, separated by commas (default: all registered)")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per search (default 60)")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="names of problems, like 'head-*'")
    parser.add_argument("--max-pairs", type=limits, default={}, metavar="ENGINE=N", help="spare an engine")
    parser.add_argument("--report", type=Path, help="also write the report, .md or .html")
    parser.add_argument("--json", type=Path, help="also write everything as JSON")
    parser.add_argument("--list", action="store_true", help="only count the spaces")
    return parser.parse_args()


def listing(problems: Sequence[ex.Problem]) -> None:
    for problem in problems:
        ranks = sum(extent > 1 for extent in problem.cascade.ranks.values())
        print(f"{problem.name}: {ranks} ranks, {space(count(problem))}", flush=True)


def write(comparison: Comparison, report: Path | None, data: Path | None) -> None:
    if report is not None:
        report.write_text(WRITERS[report.suffix](comparison), encoding="utf-8")
    if data is not None:
        from exactile.compare_json import comparison_json
        from exactile.json_output import dumps

        data.write_text(dumps(comparison_json(comparison)) + "\n", encoding="utf-8")


def main() -> int:
    asked = arguments()
    if asked.report is not None and asked.report.suffix not in WRITERS:
        sys.exit(f"--report: expected a file that ends in {' or '.join(WRITERS)}")
    problems = chosen(asked.only)
    if not problems:
        sys.exit(f"--only: no problem matches {asked.only!r}; --list shows all")
    if asked.list:
        listing(problems)
        return 0
    engines = None if asked.engines is None else asked.engines.split(",")
    print(table_head(), flush=True)
    try:
        comparison = compare(problems, engines, asked.time_limit, max_pairs=asked.max_pairs, watcher=Live())
    except InputError as error:
        sys.exit(str(error))
    write(comparison, asked.report, asked.json)
    print("", *summary(comparison), *alarms(comparison), sep="\n")
    if alarms(comparison):
        return 1
    return 130 if comparison.interrupted else 0


if __name__ == "__main__":
    sys.exit(main())
