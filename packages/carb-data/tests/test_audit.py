"""Attacks from the answers alone: what gives the answer away is found, and mirrored families give
nothing away."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("sklearn", reason="needs the extra 'checks'")

from carb_data import BonSet, Dataset, Provenance, Role, load
from carb_data.audit import LEARNED, audit
from carb_data.home import home_line
from carb_data.surface import form_features, surface_features
from small_sets import small_set

WORDS = (
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heron",
    "islet",
    "jetty",
    "knoll",
    "larch",
)


def phrases(random_: random.Random) -> list[str]:
    return [" ".join(random_.choices(WORDS, k=6)) for _ in range(4)]


def fair(count: int, seed: int = 0) -> list[BonSet]:
    random_ = random.Random(seed)
    return [small_set(f"s{n}", phrases(random_), random_.randrange(4)) for n in range(count)]


def working(sets: list[BonSet], level: str = "all") -> set[str]:
    return {attack.attack for attack in audit(Dataset(sets)).working if attack.level == level}


def changed(item: BonSet, how) -> BonSet:
    responses = tuple(
        r.model_copy(update={"text": how(r.text, r.role is Role.CHOSEN)}) for r in item.responses
    )
    return item.model_copy(update={"responses": responses})


def test_nothing_works_where_nothing_gives_the_answer_away():
    report = audit(Dataset(fair(150)))
    assert report.passed
    features = surface_features(fair(1)[0]) | form_features(("a",), ())
    attacks = {f"{side} {name}" for side in ("most", "least") for name in features}
    assert {attack.attack for attack in report.attacks} == {*LEARNED, *attacks}
    assert len(report.hard) == 150
    assert 0.3 < report.detectable < 0.5
    assert audit(Dataset(fair(3)), learn=False).detectable is None


@pytest.mark.parametrize(
    ("how", "attack"),
    [
        (
            lambda text, right: (
                f"zephyr {text}" if right else f"{random.Random(text).choice(WORDS)} {text}"
            ),
            "bag of words",
        ),
        (lambda text, right: text.replace("e", "é") if right else text, "character n-grams"),
        (lambda text, right: f"not {text}" if right else f"now {text}", "most negation alone"),
        (
            lambda text, right: text if right else f"{text[:9]} the same long ending",
            "most likeness of the others (3-grams)",
        ),
        (lambda text, right: f"{text} and on and on" if right else text, "most length"),
        (
            lambda text, right: f"{text}, in Germany" if right else f"{text}, in no place",
            "most names of cultures",
        ),
        (lambda text, right: text if right else f"{text}!?", "least punctuation"),
    ],
)
def test_a_giveaway_is_found(how, attack):
    sets = [changed(item, how) for item in fair(200)]
    report = audit(Dataset(sets))
    (found,) = [one for one in report.attacks if one.attack == attack and one.level == "all"]
    assert found.works
    assert found.severe
    assert len(report.hard) < 20


def mirrored(count: int) -> list[BonSet]:
    """Families whose first answer, the one of the main set, carries a marker and is the longest."""
    random_ = random.Random(1)
    sets = []
    for n in range(count):
        first, *others = phrases(random_)
        texts = [f"zephyr {first} and more", *others]
        places = ["english-gb", "german-at", "german-ch", "italian"]
        for place, culture in enumerate(places):
            origin = Provenance(
                source="test", source_id=f"f{n}", license="CC0-1.0", method="authored"
            )
            sets.append(
                small_set(
                    f"f{n}-{place}",
                    texts,
                    place,
                    culture=culture,
                    family=f"f{n}",
                    provenance=origin,
                )
            )
    return sets


def test_a_family_is_immune_as_a_whole_and_its_main_set_is_not():
    sets = mirrored(60)
    report = audit(Dataset(sets))
    whole = [attack for attack in report.attacks if attack.level == "all"]
    for attack in whole:
        assert attack.accuracy == pytest.approx(0.25, abs=1e-12), attack.attack
    main = {attack.attack: attack for attack in report.attacks if attack.level == "main"}
    assert main["most length"].accuracy == main["bag of words"].accuracy == 1
    assert {"most length", "bag of words"} <= {attack.attack for attack in report.working}
    assert report.hard == tuple(
        item.id for item in sets
    )  # what solves one set of a family fails in the others


def test_sets_of_one_source_item_count_together():
    random_ = random.Random(5)
    origins = [
        Provenance(source="t", source_id=str(n), license="x", method="authored") for n in range(12)
    ]
    texts = [
        [f"{'very ' * (n % 2)}{first}", *rest]
        for n in range(12)
        for first, *rest in [phrases(random_)]
    ]
    copies = [
        small_set(
            f"{n}-{c}",
            [f"{text} {WORDS[(c + k) % 12]}" for k, text in enumerate(texts[n])],
            provenance=origins[n],
        )
        for n in range(12)
        for c in range(20)
    ]
    (first,) = [
        a
        for a in audit(Dataset(copies), learn=False).attacks
        if a.attack == "most length" and a.level == "all"
    ]
    assert first.high - first.low > 0.4  # twelve source items, though there are 240 sets


def test_the_correction_keeps_false_alarms_rare():
    alarms = sum(not audit(Dataset(fair(40, seed)), learn=False).passed for seed in range(12))
    assert alarms <= 2


def test_no_attack_works_on_the_seed():
    report = audit(load("carb-seed"))
    assert {attack.level for attack in report.attacks} == {"all", "main", "domain", "culture"}
    assert [attack for attack in report.working if attack.level == "all"] == []
    severe = [attack for attack in report.working if attack.severe]
    assert [attack for attack in severe if attack.level == "main"] == []
    # In a part of the main sets a classifier may learn what home's answers are about, and no text
    # is bent for it. It stays below the home line of that part, which every table shows. A rule of
    # form, such as the length, has no such excuse.
    assert {attack.attack for attack in severe} <= {*LEARNED}
    for attack in severe:
        part = [item for item in load("carb-seed") if attack.group in (item.domain, item.culture)]
        assert attack.high < home_line(part).accuracy
