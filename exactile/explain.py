"""`list` and `show`: what ships, and what one workload, machine, problem or mapping says, in words."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import get_args

from exactile.catalogue import Kind, entries, find
from exactile.formulation.cascade import Cascade
from exactile.formulation.core import violations
from exactile.formulation.einsum import Einsum
from exactile.formulation.equation_text import equation
from exactile.formulation.faults import Fault, InputError, nearest
from exactile.formulation.hardware import ComputeUnit, Hardware, Level, Rate, SpatialDim
from exactile.formulation.mapping import Mapping
from exactile.formulation.mapping_text import Line, draw
from exactile.formulation.problem import Mapspace, Problem
from exactile.formulation.quantity_text import grouped, metric, size
from exactile.kinds import FileKind, file_kind
from exactile.table import Row, table
from exactile.yaml_source import read_file

LISTS: dict[str, Kind] = {"workloads": "workload", "hardware": "hardware", "problems": "problem"}


def listing(what: str) -> list[Line]:
    """Names of one kind with a line on each. Raises `InputError` for an unknown kind."""
    if what == "engines":
        from exactile.solver.engines import ENGINES

        rows = [(facts.name, facts.method) for facts in ENGINES.values()]
    elif what in LISTS:
        rows = [(entry.name, entry.description) for entry in entries(LISTS[what])]
    else:
        known = (*LISTS, "engines")
        message = f"expected {', '.join(known[:-1])} or {known[-1]}, got '{what}'{nearest(what, known)}"
        raise InputError([Fault(("list",), message)])
    width = max((len(name) for name, _ in rows), default=0)
    return [[(name.ljust(width), "title"), (f"  {about}", "plain")] for name, about in rows]


def explain(name: str) -> list[Line]:
    """One file, or one built-in thing by name, in words. Raises `InputError` with every fault of it."""
    from exactile.load import load_hardware, load_problem, load_workload

    match _kind_of(name):
        case "problem":
            return explain_problem(load_problem(name))
        case "workload":
            return explain_cascade(load_workload(name))
        case "hardware":
            return explain_hardware(load_hardware(name))
    return _explain_mapping(name)


def _kind_of(name: str) -> FileKind:
    """A problem if it can be one: several kinds may share a built-in name. A file is known by its keys."""
    if not Path(name).exists():
        kinds = [kind for kind in get_args(Kind) if find(kind, name) is not None]
        if not kinds:
            everything = [entry.name for kind in get_args(Kind) for entry in entries(kind)]
            raise InputError(
                [Fault((name,), f"no such file, and nothing built in{nearest(name, everything)}")]
            )
        kind: Kind = "problem" if "problem" in kinds else kinds[0]
        return kind
    found = file_kind(read_file(name))
    if found is None:
        raise InputError([Fault((name,), "is neither a problem, a workload, a machine nor a mapping")])
    return found


def drawn(name: str) -> str:
    """The picture of a workload, of a problem's, or of a mapping, as SVG. Raises `InputError`."""
    from exactile.drawing import picture
    from exactile.load import load_problem, load_workload

    match _kind_of(name):
        case "problem":
            return picture(load_problem(name))
        case "workload":
            return picture(load_workload(name))
        case "hardware":
            raise InputError([Fault((name,), "a machine has no cascade to draw")])
    problem, mapping = _mapping_with_problem(name)
    broken = list(violations(problem.cascade, problem.hardware, mapping, problem.mapspace))
    if broken:
        raise InputError([Fault((name,), f"not legal: {sentence}") for sentence in broken])
    return picture(problem, mapping)


def _explain_mapping(path: str) -> list[Line]:
    """The loop trees."""
    problem, mapping = _mapping_with_problem(path)
    return draw(mapping, problem.cascade, problem.hardware)


def _mapping_with_problem(path: str) -> tuple[Problem, Mapping]:
    """A mapping file and the problem that it names, if that is a built-in one: a mapping has no extents."""
    from exactile.load import load_mapping, load_problem

    named = read_file(path).plain().get("problem")
    name = named.get("name") if isinstance(named, dict) else None
    if not isinstance(name, str) or find("problem", name) is None:
        message = "a mapping is explained together with its problem: 'exactile check PROBLEM MAPPING'"
        raise InputError([Fault((path,), message)])
    problem = load_problem(name)
    return problem, load_mapping(path, problem)


def explain_cascade(cascade: Cascade) -> list[Line]:
    """The Einsums with their sizes, then the tensors."""
    ranks = ", ".join(f"{rank} {grouped(extent)}" for rank, extent in cascade.ranks.items())
    lines: list[Line] = [
        [("workload ", "detail"), (cascade.name, "title")],
        [("ranks    ", "detail"), (ranks, "plain")],
        [],
    ]
    rows = [
        Row((equation(e), f"{e.op}{_marks(e)}", grouped(cascade.points(e))), "einsum")
        for e in cascade.einsums
    ]
    lines += table(("Einsum", "op", "points"), rows, left=2)
    tensors = [
        Row((t.name, t.role, " × ".join(map(str, t.shape)) or "scalar", str(t.bits), size(t.size * t.bits)))
        for t in cascade.tensors.values()
    ]
    return [*lines, [], *table(("tensor", "role", "shape", "bits", "size"), tensors, left=3)]


def explain_hardware(hardware: Hardware) -> list[Line]:
    """Levels and compute units, and where the numbers come from."""
    clock = f"{metric(hardware.clock, 0, 'Hz')}, " if hardware.clock else ""
    overlap = "levels and units overlap" if hardware.overlap == "full" else "nothing overlaps"
    launch = f", {grouped(hardware.launch)} cycles per fused group" if hardware.launch else ""
    lines: list[Line] = [
        [("hardware ", "detail"), (hardware.name, "title"), (f"  {clock}{overlap}{launch}", "plain")],
        [],
    ]
    unit = "" if hardware.energy_unit == "1" else hardware.energy_unit
    levels = [Row(_level_cells(level, unit)) for level in hardware.levels]
    lines += table(("level", "capacity", "read", "write", "bandwidth", "holds", "behind it"), levels, left=7)
    units = [Row(_unit_cells(one, unit)) for one in hardware.compute]
    lines += [[], *table(("unit", "kind", "energy per op", "use"), units, left=4)]
    if hardware.sources:
        lines += [[], [("sources", "title")]]
        lines += [[(f"  {what}: {source}", "plain")] for what, source in hardware.sources.items()]
    return lines


def explain_problem(problem: Problem) -> list[Line]:
    """What is asked, then the workload and the machine."""
    objective = problem.objective
    text = f"minimise {objective.minimize}, ties by {', then '.join(objective.keys[1:])}"
    for name, limit in objective.subject_to.items():
        text += f", {name} at most {grouped(limit)}"
    lines: list[Line] = [
        [("problem  ", "detail"), (problem.name, "title")],
        [("asks     ", "detail"), (text, "plain")],
    ]
    restrictions = _restrictions(problem.mapspace)
    lines.append([("mapspace ", "detail"), (", ".join(restrictions), "plain")])
    return [*lines, [], *explain_cascade(problem.cascade), [], *explain_hardware(problem.hardware)]


def _marks(einsum: Einsum) -> str:
    marks = f" over {einsum.over}, {einsum.mode}" if einsum.over else ""
    marks += ", reduced by max" if einsum.reduce == "max" else ""
    return marks + (f", in place of {einsum.in_place}" if einsum.in_place else "")


def _level_cells(level: Level, unit: str) -> tuple[str, ...]:
    capacity = "unbounded" if level.capacity is None else size(level.capacity)
    bandwidth = _bandwidth(level.read_bandwidth)
    if not level.shared_port:
        bandwidth = f"reads {bandwidth}, writes {_bandwidth(level.write_bandwidth)}"
    holds = "all" if level.holds is None else ", ".join(sorted(level.holds))
    spatial = ", ".join(map(_dimension, level.spatial))
    doubled = ", double-buffered" if level.double_buffer else ""
    energy = [f"{_amount(rate.amount)} {unit}/{rate.per}" for rate in (level.read_energy, level.write_energy)]
    return (level.name, capacity + doubled, *energy, bandwidth, holds, spatial)


def _unit_cells(unit: ComputeUnit, energy: str) -> tuple[str, ...]:
    ops = ", ".join(f"{op} {_amount(cost.energy)} {energy}".rstrip() for op, cost in unit.ops.items())
    use = {
        "systolic": ", ".join(unit.dataflows),
        "free": "any rank on any dimension; holds " + (", ".join(unit.registers) or "nothing"),
        "vector": f"{unit.lanes} lanes",
    }[unit.kind]
    count = f"{unit.instances.size} × " if unit.instances.size > 1 else ""
    return (unit.name, f"{count}{unit.kind}", ops, use)


def _restrictions(mapspace: Mapspace) -> list[str]:
    """Every freedom and restriction, in the words of the problem file."""
    parts = [f"tile sizes: {mapspace.tile_sizes}", f"fusion: {mapspace.fusion}", f"order: {mapspace.order}"]
    freedoms = ("recomputation", "shared_inputs", "fused_outputs", "between_groups")
    parts += [f"{name}: {'on' if getattr(mapspace, name) else 'off'}" for name in freedoms]
    parts += [f"{name}: pinned" for name in ("orders", "residency", "tiles") if getattr(mapspace, name)]
    return parts


def _dimension(dim: SpatialDim) -> str:
    lacks = [
        word for word, able in (("no multicast", dim.multicast), ("no reduction", dim.reduce)) if not able
    ]
    return f"{dim.name} {dim.size}" + (f" ({', '.join(lacks)})" if lacks else "")


def _bandwidth(rate: Rate | None) -> str:
    if rate is None:
        return "unlimited"
    if rate.per == "bit":
        return f"{_amount(rate.amount / 8)} B/cycle"
    return f"{_amount(rate.amount)} value/cycle"


def _amount(value: Fraction) -> str:
    return grouped(value) if value.denominator == 1 else f"{float(value):.4g}"
