"""Options of servers, and the key that they name."""

import ipaddress
import os
import re
from typing import Annotated, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import Field, FiniteFloat, NonNegativeInt, PositiveInt

from carb_data import CarbError, Frozen, JsonObject
from carb_scorers.models.protocol import NonNegative

__all__ = ["ServerOptions"]

_OPENAI = "https://api.openai.com/v1"


class ServerOptions(Frozen):
    """Options of every ``backend=openai``."""

    url: str = _OPENAI
    """Base URL, with its version: ``http://127.0.0.1:8000/v1``."""
    key_env: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the key. A key is never written into a spec."""
    body: JsonObject = "{}"
    """A JSON object put into every request; a null takes a field out. For a model that takes no
    temperature: ``{"temperature": null}``. ``max_completion_tokens`` is sent by itself where a
    server refuses ``max_tokens``."""
    chat_template_kwargs: JsonObject = "{}"
    """A JSON object of variables for the server's chat template, such as ``{"enable_thinking":
    false}``. Servers of vLLM, SGLang and llama.cpp take it; others may ignore or refuse it."""
    price_in: NonNegative | None = None
    """Price of a million input tokens, in any currency. ``run.json`` then holds the cost of the
    run."""
    price_out: NonNegative | None = None
    """Price of a million output tokens, in the currency of ``price_in``."""
    concurrency: PositiveInt = 8
    """How many requests may be under way at once."""
    timeout: Annotated[FiniteFloat, Field(gt=0)] = 120.0
    """Seconds for one attempt, from connecting to the last byte."""
    retries: NonNegativeInt = 6
    """Most further attempts after an error that may pass: 408, 409, 425, 5xx, a timeout or a lost
    connection. They wait exponentially longer, with jitter, or as long as ``Retry-After`` asks."""
    patience: NonNegative = 300.0
    """Seconds for which a request is tried while the server is overloaded or gone (429, 502, 503,
    504, 529, nobody listens). Then the request becomes an error row if others were answered
    meanwhile, and else the run stops. With 0 such requests become error rows after their
    retries, and at once where ``Retry-After`` asks for more than 30 seconds."""


class ServerLanguageOptions(ServerOptions):
    """Options of ``backend=openai`` for language models."""

    api: Literal["chat", "completions"] = "chat"
    """``completions`` for models without a chat template, and for log-probabilities of given
    answers."""
    top_logprobs: PositiveInt = 20
    """How many of the most probable tokens the server is asked to report with ``read=logprob``;
    most allow 20."""


class ServerRewardOptions(ServerOptions):
    """Options of ``backend=openai`` for classifiers."""

    url: str
    """Base URL of a vLLM server, with or without its version: ``http://127.0.0.1:8000/v1``."""
    api: Literal["classify", "score"] = "classify"
    """``classify``: the server's chat template puts question and response together. ``score``: no
    template; they are a pair of texts, as for cross-encoders."""
    bounded: bool = False
    """The head itself gives numbers in [0, 1] or [-1, 1]; else scores that all lie there stop the
    run, since an activation stands behind the head."""


def key_of(options: ServerOptions) -> str | None:
    """The key for a server, from the environment.

    A key without ``key_env`` is not sent in clear text over a network.

    Raises:
        CarbError: the URL is not one, or the key is missing.
    """
    parts = _server_of(options.url)
    key = os.environ.get(options.key_env, "").strip()
    by_name = "key_env" in options.model_fields_set
    if not key:
        if by_name:  # what stands there may be the key itself
            raise CarbError(
                "key_env= names no environment variable that holds a key; give the variable's name."
            )
        if options.url.rstrip("/") == _OPENAI:
            raise CarbError(
                f"The environment variable {options.key_env} holds no key; set it, or name "
                "another in key_env=."
            )
        return None
    if not (key.isascii() and key.isprintable()):
        raise CarbError(
            f"The environment variable {options.key_env} holds characters that no key has."
        )
    if parts.scheme == "http" and not is_this_machine(options.url) and not by_name:
        return None
    return key


def _server_of(url: str) -> SplitResult:
    """The parts of a server's base URL.

    Raises:
        CarbError: it is no such URL, or holds a password.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if re.fullmatch(r"[\d.]+", host):
            ipaddress.ip_address(host)
    except ValueError:
        host = ""
    if not host or parts.scheme not in {"http", "https"} or parts.query or parts.fragment:
        raise CarbError(
            "url= must be the base URL of a server, for example http://127.0.0.1:8000/v1."
        )
    if parts.username is not None or parts.password is not None:
        raise CarbError(
            "url= must not hold a password; put the key into a variable and name that in key_env=."
        )
    return parts


def is_this_machine(url: str) -> bool:
    """Whether a URL's host is the machine itself."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
