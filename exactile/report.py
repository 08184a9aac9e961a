"""What `solve` and `check` print: the answer first, then the dataflow, then where the cost comes from.

Every function returns lines of `(text, kind)` spans; `exactile.terminal` colours them.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from exactile.fate_table import fates_table
from exactile.formulation.cost import Cost, GroupCounts, Traffic
from exactile.formulation.hardware import Hardware
from exactile.formulation.mapping import Mapping
from exactile.formulation.mapping_text import Line, draw_group, group_title
from exactile.formulation.problem import Problem
from exactile.formulation.quantity_text import grouped, metric, percent, size
from exactile.solver.engine import Space
from exactile.solver.solution import Solution
from exactile.table import Row, table

_LABELS = {
    "dram_traffic": "DRAM traffic",
    "energy": "energy",
    "latency": "latency",
    "edp": "energy × delay",
    "operations": "operations",
}


def solution_report(solution: Solution) -> list[Line]:
    """The whole answer: headline, loop trees, tables."""
    lines = [title(solution.problem)]
    lines += _headline(solution)
    if solution.mapping is not None and solution.cost is not None:
        lines += [[], *mapping_report(solution.problem, solution.mapping, solution.cost)]
    return lines


def costs(problem: Problem, cost: Cost) -> list[tuple[str, str]]:
    """Labels and values of the cost, the objective first."""
    names = dict.fromkeys((problem.objective.minimize, "energy", "latency", "dram_traffic"))
    return [(_LABELS[name], quantity(problem, name, cost.quantity(name))) for name in names]


def labelled(facts: Sequence[tuple[str, str]]) -> list[Line]:
    """One fact a line, values aligned, the first one emphasised."""
    width = max(len(label) for label, _ in facts) + 2
    return [
        [(label.ljust(width), "detail"), (text, "number" if position == 0 else "plain")]
        for position, (label, text) in enumerate(facts)
    ]


def title(problem: Problem) -> Line:
    """The problem and its machine."""
    return [(problem.name, "title"), (f"  on {problem.hardware.name}", "detail")]


def mapping_report(problem: Problem, mapping: Mapping, cost: Cost) -> list[Line]:
    """The loop tree of every group with its peak and its bottleneck, then the cost tables."""
    lines: list[Line] = []
    for position, group in enumerate(mapping.groups):
        lines.append([(group_title(position + 1, len(mapping.groups), group), "title")])
        lines.append([(group_summary(problem, mapping, cost, position), "detail")])
        lines += [*draw_group(group, problem.cascade, problem.hardware), []]
    if mapping.kept_between_groups:
        lines += [[(f"kept on chip between groups: {', '.join(mapping.kept_between_groups)}", "detail")], []]
    if len(problem.cascade.einsums) > 1:
        lines += [*fates_table(problem, mapping, cost), []]
    return [*lines, *traffic_table(problem, cost), [], *_resources(problem.hardware, cost)]


def group_summary(problem: Problem, mapping: Mapping, cost: Cost, position: int) -> str:
    """Traffic, energy, cycles with their bottleneck, and peaks of one group."""
    hardware = problem.hardware
    counts, resources = cost.groups[position], cost.latency_by_group[position]
    outer = hardware.levels[0].name
    moved = group_traffic(problem, counts, outer)
    energy = sum((cost.energy_by_einsum[name] for name in mapping.groups[position].order), Fraction(0))
    cycles = (max if hardware.overlap == "full" else sum)(resources.values()) + hardware.launch
    parts = [f"{outer} {size(moved)}"]
    if energy:
        pico = hardware.energy_unit == "pJ"
        parts.append(metric(energy, -12, "J") if pico else f"energy {grouped(energy)}")
    if cycles:
        parts.append(f"{grouped(cycles)} cycles, bound by {limiting(list(resources.items()))}")
    parts += [
        f"{level.name} {size(counts.peak[level.name])} of {size(level.capacity)}"
        for level in hardware.levels
        if level.capacity is not None and level.name in counts.peak
    ]
    return " · ".join(parts)


def group_traffic(problem: Problem, counts: GroupCounts, level: str) -> int:
    """Bits that a group moves at a level, both ways."""
    tensors = problem.cascade.tensors
    return sum(
        (moved.reads + moved.writes) * tensors[tensor].bits
        for (name, _, tensor), moved in counts.traffic.items()
        if name == level
    )


def quantity(problem: Problem, name: str, value: Fraction) -> str:
    """An objective's value, exact, with its unit and, where it helps, the same in everyday units."""
    hardware = problem.hardware
    text = grouped(value)
    match name:
        case "dram_traffic":
            return f"{text} B" + (f" ({size(8 * value)})" if value >= 1024 else "")
        case "energy" if hardware.energy_unit == "pJ":
            return f"{text} pJ" + (f" ({metric(value, -12, 'J')})" if value >= 1000 else "")
        case "latency":
            if hardware.clock is None:
                return f"{text} cycles"
            return f"{text} cycles ({metric(value / hardware.clock, 0, 's')})"
        case "edp":
            return f"{text} {'pJ·cycles' if hardware.energy_unit == 'pJ' else 'cycles'}"
    return text


def traffic_table(problem: Problem, cost: Cost) -> list[Line]:
    """Reads, writes and energy by level and tensor, then the energy of the compute units."""
    rows: list[Row] = []
    for number, level in enumerate(problem.hardware.levels):
        by_tensor = level_traffic(cost, level.name)
        for name, traffic in by_tensor.items():
            energy = traffic_energy(problem, number, name, traffic)
            rows.append(Row(("", name, *_counts(traffic), *_energy(energy, cost)), "plain"))
        total = sum(by_tensor.values(), Traffic())
        energy = cost.energy_by_level.get(level.name, Fraction(0))
        at = len(rows) - len(by_tensor)
        rows.insert(at, Row((level.name, "", *_counts(total), *_energy(energy, cost)), "title"))
    for unit in problem.hardware.compute:
        energy = cost.energy_by_level.get(unit.name, Fraction(0))
        rows.append(Row((unit.name, "", "", "", *_energy(energy, cost)), "title"))
    energy_unit = problem.hardware.energy_unit
    heading = "energy" if energy_unit == "1" else f"energy/{energy_unit}"
    return table(("", "tensor", "reads", "writes", heading, "share"), rows, left=2)


def level_traffic(cost: Cost, level: str) -> dict[str, Traffic]:
    """Values moved at a level, by tensor, all groups together, in the order of their first use."""
    found: dict[str, Traffic] = {}
    for group in cost.groups:
        for (name, _, tensor), traffic in group.traffic.items():
            if name == level:
                found[tensor] = found.get(tensor, Traffic()) + traffic
    return {tensor: traffic for tensor, traffic in found.items() if traffic != Traffic()}


def traffic_energy(problem: Problem, level: int, tensor: str, traffic: Traffic) -> Fraction:
    """Energy of a tensor's accesses to a level."""
    at, bits = problem.hardware.levels[level], problem.cascade.tensors[tensor].bits
    reads = traffic.reads * at.read_energy.weight(bits) * at.read_energy.amount
    return reads + traffic.writes * at.write_energy.weight(bits) * at.write_energy.amount


def limiting(resources: Sequence[tuple[str, Fraction]]) -> str:
    """The resource that is busy longest."""
    return max(resources, key=lambda item: item[1], default=("nothing", Fraction(0)))[0]


def _headline(solution: Solution) -> list[Line]:
    problem = solution.problem
    paid = [] if solution.cost is None else costs(problem, solution.cost)
    facts = [*paid[:1], ("status", status_text(solution))]
    if solution.certificate:
        facts.append(("certificate", solution.certificate))
    if solution.reason:
        facts.append(("reason", solution.reason))
    facts += paid[1:]
    if solution.space.evaluated:
        facts.append(("searched", _searched(solution.space)))
    facts.append(("engine", f"{solution.engine} ({solution.choice})"))
    facts.append(("time", _times(solution)))
    if solution.mapping is not None:
        facts.append(("verified", _checks(solution)))
    return labelled(facts)


def _searched(space: Space) -> str:
    """What the enumeration listed, and how many groups it left out."""
    parts = [
        f"{grouped(space.structures)} structures",
        f"{grouped(space.tilings)} tilings",
        f"{grouped(space.evaluated)} pairs scored",
    ]
    if space.unlisted:
        parts.append(f"{space.unlisted} of {space.groups} groups too large to list")
    return ", ".join(parts)


def status_text(solution: Solution) -> str:
    """`optimal, proved by cpsat`, or how far from it."""
    stopped = ", interrupted" if solution.interrupted else ""
    match solution.status:
        case "optimal":
            return f"optimal, proved by {solution.proof}"
        case "feasible":
            return f"feasible{stopped}, {_gap(solution)}"
        case "infeasible":
            return f"infeasible, proved by {solution.proof}"
    return f"no mapping found{stopped or ' within the time limit'}"


def _gap(solution: Solution) -> str:
    if solution.gap is None or solution.bound is None:
        return "no bound proved"
    bound = quantity(solution.problem, solution.problem.objective.minimize, solution.bound)
    return f"gap {100 * solution.gap:.3g} %: nothing is below {bound}"


def _times(solution: Solution) -> str:
    seconds = dict(solution.seconds)
    total = seconds.pop("total", 0.0)
    parts = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
    return f"{total:.2f} s" + (f" ({parts})" if parts else "")


def _checks(solution: Solution) -> str:
    checks = solution.verified
    done = [
        ("legal", checks.legal),
        ("cost rescored exactly", checks.rescored),
        ("replayed", checks.replayed),
    ]
    return ", ".join(name if passed else f"not {name}" for name, passed in done)


def _resources(hardware: Hardware, cost: Cost) -> list[Line]:
    """Peak of every level against its capacity, and busy cycles of every level and unit."""
    totals: dict[str, Fraction] = {}
    for group in cost.latency_by_group:
        for name, cycles in group.items():
            totals[name] = totals.get(name, Fraction(0)) + cycles

    def busy(name: str) -> tuple[str, str]:
        cycles = totals.get(name, Fraction(0))
        return grouped(cycles), percent(cycles, cost.cycles)

    rows = []
    for level in hardware.levels:
        unlimited = level.read_bandwidth is None and level.write_bandwidth is None
        space = ("", "", "")
        if level.capacity is not None and level.name in cost.peak:
            peak = cost.peak[level.name]
            space = (size(peak), size(level.capacity), percent(peak, level.capacity))
        rows.append(Row((level.name, *space, *(("unlimited", "") if unlimited else busy(level.name)))))
    rows += [Row((unit.name, "", "", "", *busy(unit.name))) for unit in hardware.compute]
    return table(("", "peak", "capacity", "full", "busy cycles", "busy"), rows, left=1)


def _counts(traffic: Traffic) -> tuple[str, str]:
    return grouped(traffic.reads), grouped(traffic.writes)


def _energy(energy: Fraction, cost: Cost) -> tuple[str, str]:
    return grouped(round(energy) if energy >= 1000 else energy), percent(energy, cost.energy)
