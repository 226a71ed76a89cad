"""Data sets described for others: the JSON Schema of a set, and Croissant metadata of a data set."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

from carb_data.dataset import Dataset
from carb_data.files import VERSION
from carb_data.models import BonSet

__all__ = ["croissant", "set_schema"]

_TYPES = {".jsonl": "application/jsonlines", ".parquet": "application/vnd.apache.parquet", ".gz": "application/gzip"}
_FIELDS = ("id", "culture", "domain", "language", "prompt")


def set_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a set: one line of a data file.

    What only the whole shows is not in it: exactly one response is ``chosen``, and ids are unique.
    """
    made = BonSet.model_json_schema()
    made["properties"] = {
        "schema": {"const": VERSION, "description": "Name and version of this form; absent in version 1."},
        **made["properties"],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": VERSION,
        **{key: value for key, value in made.items() if key != "title"},
    }


def croissant(dataset: Dataset, name: str, file: Path | None = None) -> dict[str, Any]:
    """Croissant 1.0 metadata (JSON-LD; Akhtar et al. 2024, arXiv 2403.19546) of a data set.

    Args:
        dataset: the data set to describe.
        name: name of the data set.
        file: the one file that holds it; its size and sha256 are recorded. Without one, no file is described.
    """
    counts = {key: Counter(getattr(item, key) for item in dataset) for key in ("culture", "language")}
    licenses = sorted({item.provenance.license for item in dataset})
    made: dict[str, Any] = {
        "@context": {
            "@language": "en",
            "@vocab": "https://schema.org/",
            "sc": "https://schema.org/",
            "cr": "http://mlcommons.org/croissant/",
            "dct": "http://purl.org/dc/terms/",
            "citeAs": "cr:citeAs",
            "column": "cr:column",
            "conformsTo": "dct:conformsTo",
            "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
            "extract": "cr:extract",
            "field": "cr:field",
            "fileObject": "cr:fileObject",
            "recordSet": "cr:recordSet",
            "source": "cr:source",
        },
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": name,
        "description": f"{len(dataset)} Best-of-N sets about {len(counts['culture'])} cultures.",
        "license": licenses,
        "inLanguage": sorted(counts["language"]),
        "keywords": ["reward model", "best-of-n", "culture", *sorted(counts["culture"])],
        "identifier": f"sha256:{dataset.fingerprint}",
        "creator": {"@type": "sc:Organization", "name": ", ".join(sorted({i.provenance.source for i in dataset}))},
        "distribution": [],
        "recordSet": [],
    }
    if file is not None:
        content = file.read_bytes()
        made["distribution"] = [
            {
                "@type": "cr:FileObject",
                "@id": "sets",
                "name": file.name,
                "contentUrl": file.name,
                "contentSize": f"{len(content)} B",
                "encodingFormat": _TYPES.get(file.suffix, "application/octet-stream"),
                "sha256": hashlib.sha256(content).hexdigest(),
            }
        ]
        made["recordSet"] = [_record_set()]
    return made


def _record_set() -> dict[str, Any]:
    """The columns that every set has and that hold one text; the JSON Schema of a set describes the others."""
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"sets/{name}",
            "name": name,
            "dataType": "sc:Text",
            "source": {"fileObject": {"@id": "sets"}, "extract": {"column": name}},
        }
        for name in _FIELDS
    ]
    return {"@type": "cr:RecordSet", "@id": "sets-records", "name": "sets", "field": fields}
