"""``carb serve``: a scorer as an HTTP reward for trainers."""

import math
import os
import sys
from typing import Annotated

from cyclopts import Parameter

from carb_cli.display import advice, say
from carb_data import CarbError, require


def serve(
    scorer: Annotated[
        str, Parameter(help="The scorer, as for `carb run`: [NAME=]KIND:TARGET?key=value&…")
    ],
    *,
    host: str = "127.0.0.1",
    port: int = 8766,
    token_env: str | None = None,
    culture: str | None = None,
    language: str | None = None,
    timeout: float = 120.0,
    policy_template: str | None = None,
) -> None:
    """Serve a scorer as a reward over HTTP.

    `POST /get_reward` answers OpenRLHF's remote reward client with {"rewards": [...]}; `POST
    /score` takes a prompt and responses. A score that failed is an error and never a number. `GET
    /health` is 200 once the model is open.

    For example:

        carb serve classifier:path/to/model --port 8766

    Parameters
    ----------
    host
        Address of this machine to listen at; any beyond loopback needs --token-env.
    port
        Port to listen at; 0 takes a free one.
    token_env
        Variable of the environment with the token that requests must bear: in the header
        `Authorization: Bearer TOKEN` or, for a client that sends no header, before the path:
        `/TOKEN/get_reward`.
    culture
        Culture of requests that name none.
    language
        Language of requests that name none.
    timeout
        Seconds until a request is answered with the scores so far, or with 504.
    policy_template
        Format of the prompts of /get_reward: the folder or hub id of the policy, or a text with {}
        for the question. By default the templates of known families are undone, and others are
        refused.
    """
    require("uvicorn", "carb-scorers[serve]")
    from carb_scorers import serve as rewards
    from carb_scorers.integrations.openrlhf import policy_of

    if not 0 < timeout < math.inf:
        raise CarbError(f"--timeout {timeout:g}: give a number of seconds above 0.")
    token = _token(token_env)
    policy = policy_of(policy_template)
    hosts = rewards.LOOPBACK if host in rewards.LOOPBACK and token is None else ()
    taken = rewards.bind(host, port, token=token)
    server = rewards.RewardServer(
        scorer,
        token=token,
        culture=culture,
        language=language,
        timeout=timeout,
        hosts=hosts,
        policy=policy,
    )
    shown = host
    if ":" in host:
        shown = f"[{host}]"
    say(f"http://{shown}:{taken.getsockname()[1]} is ready when /health says so. Ctrl-C ends it.")
    sys.stdout.flush()
    rewards.serve(server, taken, advice)


def _token(variable: str | None) -> str | None:
    """The token in a variable of the environment; null where none is named."""
    if variable is None:
        return None
    token = os.environ.get(variable, "").strip()
    if not token:  # and say it without the name, which may be the token itself
        raise CarbError(
            "--token-env names no variable that is set. Give the name of a variable that holds the "
            "token, and not the token."
        )
    return token
