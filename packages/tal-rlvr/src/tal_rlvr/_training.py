"""Imported first by every module that trains: it names the missing extra where PyTorch or TRL is not installed."""

from importlib.util import find_spec

from carb_data import MissingExtraError

for _name in ("torch", "trl"):
    if find_spec(_name) is None:
        raise MissingExtraError("tal-rlvr", "train", _name)
