"""Countries and the cultures that they belong to."""

from __future__ import annotations

from carb_data import Culture
from carb_data.registry import Registry, cultures
from carb_data.sources.countries import culture_id_of, find_country


def test_countries_find_their_most_specific_culture():
    assert culture_id_of(find_country("MEX")) == "spanish-mx"
    assert culture_id_of(find_country("U.K.")) == "english-gb"
    assert culture_id_of(find_country("hong_kong")) == "chinese-hk"
    assert culture_id_of(find_country("turkey")) is None  # lends answers, is not asked
    assert find_country("Atlantis") is None
    own = Culture(id="hausa", name="Hausa", language="ha", script="Latn", family="Afro-Asiatic", resource_class=2,
                  regions=("NG",))  # fmt: skip
    registry = Registry(cultures)
    registry.add(own)
    assert culture_id_of(find_country("nigeria"), registry) == own.id
