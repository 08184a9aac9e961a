"""Stages: quantities minimised one after the other, each kept at its optimum while the next is decided.

Energy × latency is not linear. Where it is limited, the limit is first replaced by limits on the two
factors; a solution that breaks it splits this rectangle in two, which lose the solution and nothing that
keeps the limit. Where it is minimised, energy is minimised under ever tighter limits on latency.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from exactile.formulation.core import evaluate
from exactile.formulation.cost import Cost
from exactile.formulation.encoding.bounds import compulsory
from exactile.formulation.families.decode import decode
from exactile.formulation.mapping import Mapping as Answered
from exactile.formulation.problem import Problem
from exactile.solver.engine import Control
from exactile.solver.exact.session import Answer, Session
from exactile.solver.verify import VerificationError

EDP = "edp"
Limits = Mapping[str, int]


@dataclass(frozen=True)
class Found:
    """A mapping with its exact cost."""

    mapping: Answered
    cost: Cost


@dataclass
class Stage:
    """The result of one stage: `bound` in base units; `complete` if it is the optimum."""

    best: Found | None
    bound: Fraction | None
    complete: bool
    infeasible: bool = False


def better(key: str, best: Found | None, other: Found | None) -> Found | None:
    """The one with less of a quantity, `best` if that is equal."""
    if best is None or other is None:
        return best or other
    return other if other.cost.quantity(key) < best.cost.quantity(key) else best


@dataclass
class Stages:
    """Minimises the keys of an objective in one session.

    `bounding`: bounds of this session are bounds of the problem, and may be reported. `room`: the multiple of
    the best value so far up to which solutions are looked for. On the way down from worse solutions a solver
    learns what it needs for its proof, which for large cascades is worth more than a small space.
    `known`: the best value of the first key before.
    """

    problem: Problem
    session: Session
    control: Control
    bounding: bool = True
    room: int = 1
    known: Fraction | None = None

    def lead(self, limits: Mapping[str, Fraction], best: Found | None = None) -> Stage:
        """The first key of the objective under limits in base units, as far as it may improve on `best`."""
        key = self.problem.objective.minimize
        if best is not None:
            self.known = best.cost.quantity(key)
        return self._improve(key, limits, best)

    def settle(self, limits: Mapping[str, Fraction], best: Found) -> Found:
        """The other keys in turn, none at the cost of an earlier one: `best`, or what is better than it."""
        first = self.problem.objective.minimize
        kept = {**limits, first: best.cost.quantity(first)}
        for key in self.problem.objective.keys[1:]:
            if self.control.stopped:
                break
            if best.cost.quantity(key) > compulsory(self.problem, key):
                best = better(key, best, self._improve(key, kept, best).best) or best
            kept[key] = min(best.cost.quantity(key), kept.get(key, best.cost.quantity(key)))
        return best

    def _improve(self, key: str, limits: Mapping[str, Fraction], best: Found | None) -> Stage:
        """The least of a quantity among mappings that have less of it than `best` times `room`."""
        kept = dict(limits)
        if best is not None:
            value = best.cost.quantity(key)
            # a solver that rounds cannot tell less from equal
            if self.room == 1 and key != EDP and not self.session.tolerance:
                kept[key] = self._below(value, key, kept)
            else:
                kept[key] = min(value * self.room, kept.get(key, value * self.room))
        return self._minimize_edp(kept) if key == EDP else self._minimize(key, kept)

    def _scale(self, key: str) -> int:
        return self.session.formulation.costs.space.scale(key)

    def _scaled(self, limits: Mapping[str, Fraction]) -> dict[str, int]:
        return {key: int(most * self._scale(key) // 1) for key, most in limits.items() if key != EDP}

    def _found(self, answer: Answer) -> Found | None:
        if answer.holds is None:
            return None
        mapping = decode(self.session.formulation, answer.holds)
        return Found(mapping, evaluate(self.problem.cascade, self.problem.hardware, mapping))

    def _solve(self, key: str, limits: Limits, tell: bool) -> tuple[Answer, Found | None]:
        scale = self._scale(key)

        def incumbent(value: int, bound: int | None) -> None:
            if tell:
                least = Fraction(bound, scale) if bound is not None and self.bounding else None
                found = Fraction(value, scale)
                self.control.report(found if self.known is None else min(found, self.known), least)

        answer = self.session.minimize(key, limits, self.control, incumbent)
        return answer, self._found(answer)

    def _minimize(self, key: str, limits: Mapping[str, Fraction]) -> Stage:
        """Least value of a quantity that is no product, splitting on the product if it is limited."""
        tell = key == self.problem.objective.minimize
        waiting = [self._scaled(limits)]
        product = limits.get(EDP)
        best: Found | None = None
        bounds: list[Fraction] = []
        complete = True
        while waiting:
            rectangle = waiting.pop()
            if best is not None:
                at_most = int(best.cost.quantity(key) * self._scale(key)) - 1
                rectangle = {**rectangle, key: min(at_most, rectangle.get(key, at_most))}
            answer, found = self._solve(key, rectangle, tell)
            if answer.bound is not None:
                bounds.append(Fraction(answer.bound, self._scale(key)))
            if found is not None and product is not None and found.cost.edp > product:
                waiting += self._split(rectangle, found.cost, product)
                continue
            if found is not None:
                self._confirm(key, answer, found)
                best = found
            if answer.status not in ("optimal", "infeasible"):
                complete = False
            if self.control.stopped and waiting:
                complete = False
                break
        infeasible = complete and best is None
        if complete and best is not None:
            bound: Fraction | None = best.cost.quantity(key)
        else:
            bound = min(bounds) if bounds and not waiting else None
        return Stage(best, bound, complete, infeasible)

    def _confirm(self, key: str, answer: Answer, found: Found) -> None:
        """What the model counts for its optimum must be what the mapping costs."""
        counted, cost = answer.bound, found.cost.quantity(key) * self._scale(key)
        if answer.status == "optimal" and counted is not None:
            room = self.session.tolerance * abs(counted) + (1 if self.session.tolerance else 0)
            if abs(cost - counted) > 2 * room:
                raise VerificationError(
                    f"{key}: the model counts {counted}, its mapping costs {cost} (scaled)"
                )

    def _split(self, rectangle: Limits, cost: Cost, product: Fraction) -> list[dict[str, int]]:
        """Two rectangles without this solution that hold all with energy × latency ≤ `product`."""
        shorter = {**rectangle, "latency": int(cost.cycles * self._scale("latency")) - 1}
        energy = int(product / cost.cycles * self._scale("energy") // 1)
        thriftier = {**rectangle, "energy": min(energy, rectangle.get("energy", energy))}
        return [shorter, thriftier]

    def _minimize_edp(self, limits: Mapping[str, Fraction]) -> Stage:
        """Least energy × latency: least energy, then what a shorter latency could still win."""
        fastest = self._minimize("latency", limits)
        if fastest.best is None or fastest.bound is None:
            return Stage(fastest.best, None, fastest.complete, fastest.infeasible)
        best, shortest = fastest.best, fastest.bound
        if not shortest:
            return Stage(best, Fraction(0), best.cost.edp == 0)
        room = dict(limits)
        floor = Fraction(0)
        while True:
            self.control.report(best.cost.edp, floor * shortest if self.bounding else None)
            # a better product needs less energy than this even at the shortest latency
            least = self._minimize(
                "energy", {**room, "energy": self._below(best.cost.edp / shortest, "energy", room)}
            )
            if least.infeasible:
                return Stage(best, best.cost.edp, fastest.complete)
            if least.best is not None and least.best.cost.edp < best.cost.edp:
                best = least.best
            if not least.complete or least.bound is None:
                energy = least.bound or Fraction(0)
                return Stage(best, min(best.cost.edp, energy * shortest), False)
            floor = least.bound
            room["latency"] = self._below(best.cost.edp / floor, "latency", room) if floor else Fraction(0)
            if not floor or room["latency"] < shortest:
                return Stage(best, best.cost.edp, fastest.complete)

    def _below(self, value: Fraction, key: str, limits: Mapping[str, Fraction]) -> Fraction:
        """The greatest whole scaled amount below `value`, within the limit there is."""
        scale = self._scale(key)
        scaled = value * scale
        whole = int(scaled) - 1 if scaled.denominator == 1 else int(scaled)
        return min(Fraction(whole, scale), limits.get(key, Fraction(whole, scale)))
