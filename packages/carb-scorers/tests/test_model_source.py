"""Names of models: folders and hub ids."""

from __future__ import annotations

import pytest

from carb_data import CarbError
from carb_scorers.models.source import model_source


def test_a_hub_id_is_a_hub_id():
    assert model_source("owner/name") == "owner/name"


@pytest.mark.parametrize("name", ["nowhere", "a/b/c", "../there"])
def test_what_is_no_folder_and_no_hub_id_is_refused(name):
    with pytest.raises(CarbError, match=f"no model folder '{name}'"):
        model_source(name)
