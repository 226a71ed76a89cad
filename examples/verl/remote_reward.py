"""verl's reward (0.9) from ``carb serve``, which may be another machine's: each response is asked
about alone.

    carb serve classifier:path/to/reward-model --port 8766
    python -m verl.trainer.main_ppo
    reward.custom_reward_function.path=examples/verl/remote_reward.py \
        +reward.custom_reward_function.reward_kwargs.url=http://127.0.0.1:8766

``extra_info`` must hold ``prompt``, ``culture`` and ``language``. A server that is full or away is
asked again; a response without a score ends the training. A token is read from ``CARB_TOKEN``.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any

import httpx

TRIES = 8
AGAIN = {429, 502, 503, 504}
CERTIFICATES = httpx.create_ssl_context()
"""Read once: for each call anew they would cost more than the call."""


async def post(
    client: httpx.AsyncClient, url: str, asked: dict[str, Any], headers: dict[str, str]
) -> httpx.Response:
    """The server's answer; after a refusal or a lost connection it is asked again, ever later."""
    for attempt in range(TRIES):
        wait = 2.0**attempt
        try:
            answer = await client.post(url, json=asked, headers=headers)
        except httpx.TransportError:
            if attempt == TRIES - 1:
                raise
        else:
            if answer.status_code not in AGAIN:
                break
            wait = float(answer.headers.get("retry-after", wait))
        if attempt < TRIES - 1:
            await asyncio.sleep(wait)
    return answer.raise_for_status()


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
    async with httpx.AsyncClient(timeout=180, verify=CERTIFICATES) as client:
        answer = await post(client, f"{url}/score", asked, headers)
    found = answer.json()
    if found["scores"][0] is None:
        raise RuntimeError(f"A response could not be scored: {found['errors'][0]['message']}")
    return float(found["scores"][0])
