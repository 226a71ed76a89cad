"""What the package offers, and what importing it costs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import carb_metrics


def test_every_public_name_is_there():
    homes = [name for names in carb_metrics._HOME.values() for name in names]
    assert sorted(homes) == sorted(carb_metrics.__all__)
    for name in carb_metrics.__all__:
        value = getattr(carb_metrics, name)
        assert value.__doc__, name
        assert callable(value), name
        assert name in dir(carb_metrics)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'accuraccy'"):
        _ = carb_metrics.accuraccy


def test_importing_loads_nothing_heavy():
    code = "import sys, json, carb_metrics; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)
    assert not {"torch", "scipy", "numpy", "polars", "pandas", "sklearn", "statsmodels"} & set(loaded)
    code = "import sys, json; from carb_metrics import bon_accuracy; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)
    assert not {"torch", "scipy", "pandas", "sklearn", "statsmodels"} & set(loaded)
