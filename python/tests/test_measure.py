"""`Overlap(choose="measure")`: never slower than torch's nodes. The logic on timings that are given, and on ranks of gloo."""

import math
import os
import random
import statistics

import pytest

torch = pytest.importorskip("torch")

import measure_ranks as ranks  # noqa: E402
from hostir.torch._overlap import choices  # noqa: E402
from hostir.torch._overlap.choices import ChoiceStore  # noqa: E402
from hostir.torch._overlap.times import Times, wins_needed  # noqa: E402
from rank_pool import start_ranks  # noqa: E402


def times(serial, measured):
    """Of one rank."""
    return Times.of_ranks([[serial, measured]])


def test_the_slowest_rank_counts_in_each_round():
    found = Times.of_ranks([[[1.0, 9.0, 1.0], [2.0, 2.0, 2.0]], [[4.0, 4.0, 4.0], [8.0, 1.0, 1.0]]])
    # Rounds: 4 and 8, 9 and 2, 4 and 2.
    assert (found.serial, found.measured, found.gain, found.wins, found.rounds) == (4.0, 2.0, 2.0, 2, 3)


# Critical values of the one-sided sign test at 5%, from tables.
@pytest.mark.parametrize(("rounds", "wins"), [(5, 5), (8, 7), (10, 9), (20, 15), (30, 20), (50, 32), (100, 59)])
def test_wins_that_chance_does_not_explain(rounds, wins):
    assert wins_needed(rounds) == wins


def test_too_few_rounds_say_nothing():
    assert all(wins_needed(rounds) > rounds for rounds in range(1, 5))
    assert not times([2.0] * 4, [1.0] * 4).is_faster(1.02)
    assert times([2.0] * 5, [1.0] * 5).is_faster(1.02)


def test_programs_apart():
    """Of ranks with three ways: the third counts against the second alone."""
    found = Times.of_ranks([[[2.0] * 5, [1.5] * 5, [1.0] * 5], [[1.0] * 5, [1.0] * 5, [1.25] * 5]])
    assert (found.serial, found.measured, found.apart) == (2.0, 1.5, 1.25)
    assert found.is_faster(1.02) and found.is_better_apart
    for apart, is_better in ((0.999, True), (1.0, False), (1.001, False)):
        assert Times.of_ranks([[[2.0] * 20, [1.0] * 20, [apart] * 20]]).is_better_apart == is_better
    assert not times([2.0] * 5, [1.5] * 5).is_better_apart


def test_a_tie_is_torchs():
    assert not times([1.0] * 20, [1.0] * 20).is_faster(1.0)
    assert not times([1.02] * 20, [1.0] * 20).is_faster(1.03)
    assert times([1.03] * 20, [1.0] * 20).is_faster(1.02)
    assert times([1.0] * 20, [0.0] * 20).gain == math.inf


def test_a_gain_below_one_asks_for_no_more():
    assert times([1.0] * 3, [1.5] * 3).is_faster(0.5)
    assert not times([1.0] * 3, [1.5] * 3).is_faster(0.7)


def test_a_median_that_is_luck_is_not_taken():
    """The program is faster by much in 11 of 20 rounds, and slower in the others."""
    found = times([1.0] * 20, [0.5] * 11 + [1.1] * 9)
    assert found.gain == 2.0 and found.wins == 11 and not found.is_faster(1.02)


def test_programs_as_fast_as_torch_are_seldom_taken_and_slower_ones_never():
    generator = random.Random(1)

    def taken(factor):
        def once():
            serial = [generator.lognormvariate(0, 0.1) for _ in range(20)]
            measured = [factor * generator.lognormvariate(0, 0.1) for _ in range(20)]
            return times(serial, measured).is_faster(1.02)

        return statistics.mean(once() for _ in range(1000))

    assert taken(1.0) <= 0.05
    assert taken(1.1) == 0
    assert taken(0.8) >= 0.95


def test_a_store_takes_files_of_its_user_only(tmp_path):
    store, found = ChoiceStore(tmp_path / "choices"), times([2.0] * 5, [1.0] * 5)
    assert store.read("key") is None
    store.write("key", found)
    assert Times(**store.read("key")) == found and store.read("other") is None
    (entry,) = store.folder.iterdir()
    assert (store.folder.stat().st_mode & 0o777, entry.stat().st_mode & 0o777) == (0o700, 0o600)
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    assert store.read("key") is None
    entry.unlink()
    os.mkfifo(entry)
    assert store.read("key") is None
    store.write("key", found)
    assert Times(**store.read("key")) == found
    store.folder.chmod(0o777)
    assert store.read("key") is None


def test_the_oldest_times_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr(choices, "MAX_ENTRIES", 3)
    store, found = ChoiceStore(tmp_path / "choices"), times([2.0] * 5, [1.0] * 5)
    for at in range(5):
        store.write(str(at), found)
        os.utime(store.folder / choices._file_name(str(at)), (at, at))
    assert [store.read(str(at)) is not None for at in range(5)] == [False, False, True, True, True]


def test_the_folder_of_kept_times(monkeypatch):
    for variable, value, folder in (
        ("HOME", "/somewhere", "/somewhere/.cache/hostir/choices"),
        ("XDG_CACHE_HOME", "relative", "/somewhere/.cache/hostir/choices"),
        ("XDG_CACHE_HOME", "/cache", "/cache/hostir/choices"),
        ("HOSTIR_CACHE", "/own", "/own/choices"),
    ):
        monkeypatch.delenv("HOSTIR_CACHE", raising=False)
        if variable == "HOME":
            monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setenv(variable, value)
        assert str(choices.choice_store().folder) == folder
    for none in ("0", "relative"):
        monkeypatch.setenv("HOSTIR_CACHE", none)
        assert choices.choice_store() is None


@pytest.mark.parametrize(
    "work",
    [
        ranks.measured,
        ranks.kept_times,
        ranks.times_of_one_rank,
        ranks.one_slow_rank,
        ranks.different_regions,
        ranks.parts_of_different_sizes,
        ranks.one_rank_compiles_again,
        ranks.one_rank_compiles_something_alone,
        ranks.one_rank_fails,
        ranks.one_rank_never_comes,
        ranks.joined_or_apart,
        ranks.forms_of_a_region,
        ranks.joined_factors,
        ranks.sums_beside_torchs_gradients,
        ranks.runs_in_a_row,
        ranks.refused_programs,
        ranks.kept_graphs_compute,
    ],
)
def test_two_ranks(work):
    start_ranks(work, 2)


def test_three_ranks_with_parts_of_different_sizes():
    start_ranks(ranks.parts_of_different_sizes, 3)
