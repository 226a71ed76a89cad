"""verl's reward (0.9) from ``carb serve``, which may be another machine's: each response is asked
about alone.

    carb serve classifier:path/to/reward-model --port 8766
    python -m verl.trainer.main_ppo
    reward.custom_reward_function.path=examples/verl/remote_reward.py \
        +reward.custom_reward_function.reward_kwargs.url=http://127.0.0.1:8766

``extra_info`` must hold ``prompt``, ``culture`` and ``language``. A response without a score ends
the training. A token is read from ``CARB_TOKEN``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import httpx


async def compute_score(
    solution_str: str, extra_info: Mapping[str, Any], url: str = "http://127.0.0.1:8766", **_: Any
) -> float:
    """The server's score of one response. verl passes all by name, also what a score must not see:
    ``ground_truth``."""
    prompt = extra_info["prompt"]
    place = {name: str(extra_info[name]) for name in ("culture", "language")}
    # messages that went through Parquet come back as an array
    asked = {
        "prompt": prompt if isinstance(prompt, str) else list(prompt),
        "responses": [solution_str],
        **place,
    }
    token = os.environ.get("CARB_TOKEN")
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(timeout=180) as client:
        answer = await client.post(f"{url}/score", json=asked, headers=headers)
    found = answer.raise_for_status().json()
    if found["scores"][0] is None:
        raise RuntimeError(f"A response could not be scored: {found['errors'][0]['message']}")
    return float(found["scores"][0])
