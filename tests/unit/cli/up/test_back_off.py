from __future__ import annotations

from retinue.cli.up.back_off import BackOff


def test_the_wait_doubles_up_to_its_limit() -> None:
    back_off = BackOff(first_s=1, longest_s=5)

    assert [back_off.after_death(0.1) for _ in range(5)] == [1, 2, 4, 5, 5]


def test_a_long_life_starts_over() -> None:
    back_off = BackOff(first_s=1, settled_s=10)
    back_off.after_death(0.1)
    back_off.after_death(0.1)

    assert back_off.after_death(10) == 1
    assert back_off.after_death(0.1) == 1


def test_what_never_lived_long_is_given_up_sooner() -> None:
    new, old = BackOff(tries=6, first_tries=3), BackOff(tries=6, first_tries=3)
    old.after_death(60)
    deaths: dict[str, int] = {}
    for name, back_off in (("new", new), ("old", old)):
        while not back_off.is_hopeless:
            back_off.after_death(0.1)
            deaths[name] = deaths.get(name, 0) + 1

    assert deaths == {"new": 3, "old": 6}
