"""Figures of the layers' times: speed-ups, exposed and hidden communication."""

from __future__ import annotations

import statistics
from typing import Any

from bench.torch_baselines.link_traffic import AWAKE
from bench.torch_baselines.timing import median_interval


def figures_of(times: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    """The figures that are printed of each way."""
    figures: dict[str, dict[str, Any]] = {}
    for name, sample in times.items():
        suffix = " graph" if name.endswith(" graph") else ""
        base = times.get(f"compile{suffix}")
        entry: dict[str, Any] = {"ms": statistics.median(sample), "rounds": len(sample)}
        if name != "collectives" and base:
            entry["speed-up"] = median_interval([one / other for one, other in zip(base, sample, strict=True)])
        figures[name] = entry
        if name == "collectives" or name.startswith("no-comm"):
            continue
        entry |= hidden_part(times, name, f"no-comm{suffix}", f"compile{suffix}", "exposed", "hidden")
        if not name.startswith(AWAKE):
            entry |= hidden_part(times, name, f"{AWAKE}{suffix}", f"compile{suffix}", "exposed awake", "hidden awake")
    return figures


def hidden_part(times: dict[str, list[float]], name: str, bare: str, base: str, *keys: str) -> dict[str, float]:
    """The time of a way over the one without communication, and the part of the base's that is not in it."""
    if bare not in times:
        return {}
    over = {way: median_difference(times[way], times[bare]) for way in (name, base) if way in times}
    found = {keys[0]: over[name]}
    if over.get(base, 0.0) > 0:
        found[keys[1]] = 1 - over[name] / over[base]
    return found


def median_difference(one: list[float], other: list[float]) -> float:
    return statistics.median(a - b for a, b in zip(one, other, strict=True))


def table_of(figures: dict[str, dict[str, Any]]) -> str:
    lines = [f"{'way':<18}{'ms':>9}  {'speed-up [95%]':<24}{'exposed ms':>11}{'hidden':>8}{'links awake':>13}"]
    for name, entry in figures.items():
        ratio = "{:.3f} [{:.3f}, {:.3f}]".format(*entry["speed-up"]) if "speed-up" in entry else ""
        exposed = f"{entry['exposed']:.3f}" if "exposed" in entry else ""
        hidden, awake = (f"{entry[key]:.0%}" if key in entry else "" for key in ("hidden", "hidden awake"))
        lines.append(f"{name:<18}{entry['ms']:>9.3f}  {ratio:<24}{exposed:>11}{hidden:>8}{awake:>13}".rstrip())
    return "\n".join(lines)
