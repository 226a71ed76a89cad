"""Reads a server's answers, and keeps its key out of every message."""

import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from carb_data import CarbError, repeated_name

Answer = dict[str, Any]
_SHOWN = 300
"""Characters of a server's message that are kept."""
_CAN_BE_A_SECRET = 8
"""Characters; local servers are given keys such as ``none``, which are words."""
_OVERLOADED = {429, 502, 503, 504, 529}
"""Statuses of a server, or of a proxy before it, that cannot answer any request now."""


@dataclass(eq=False)
class RequestError(Exception):
    """A request that was not answered."""

    kind: str
    """The kind of the error row."""
    message: str
    again: bool = False
    """Whether it is worth trying again."""
    after: float = 0.0
    """The seconds that the server asks to wait."""
    overloaded: bool = False
    """The server, not the request, is at fault: it is down or overloaded."""
    parameter: str = ""
    """The field of the request that the server does not take."""


class Secret:
    """A key that does not show itself: not in a repr, and not where a server repeats it."""

    __slots__ = ("_spelled", "_value")

    def __init__(self, value: str | None) -> None:
        self._value = value
        self._spelled = set[str]()
        if value is not None and len(value) >= _CAN_BE_A_SECRET:
            self._spelled = {value, quote(value, safe="")}

    def header(self) -> dict[str, str]:
        if self._value is None:
            return {}
        return {"Authorization": f"Bearer {self._value}"}

    def hidden(self, answer: Any) -> Any:
        """A text, or a decoded answer, with every occurrence of the key struck out."""
        if isinstance(answer, str):
            for spelled in self._spelled:
                answer = answer.replace(spelled, "***")
            return answer
        if isinstance(answer, dict):
            return {self.hidden(name): self.hidden(value) for name, value in answer.items()}
        if not isinstance(answer, list):
            return answer
        return [self.hidden(value) for value in answer]

    def __repr__(self) -> str:
        return "***"

    def __reduce__(self) -> str:
        raise TypeError("a key is never written")


def read_answer(url: str, key: Secret, response: Any, content: bytes, *, proven: bool) -> Answer:
    """A server's answer. Of one that is not JSON nothing is shown, since it could hold the key in
    any spelling.

    ``proven``: the server has answered before, so that URL, key and model are right.

    Raises:
        RequestError: it is an error, or no answer.
        CarbError: no request will be answered.
    """
    status: int = response.status_code
    if 300 <= status < 400:
        location = str(response.headers.get("location", "nowhere"))
        where = shown(key, location.partition("?")[0])
        raise RequestError(
            "http", f"{status}: the server redirects to {where}; redirects are not followed"
        )
    try:
        answer = key.hidden(json.loads(content))
    except (
        ValueError,
        RecursionError,
    ):  # no JSON, or deeper than anything that a server has to say
        answer = None
    form = f"{response.headers.get('content-type', 'no content type')}, {len(content)} bytes"
    if status >= 400:
        message = shown(key, _message_of(answer) or f"no message ({form})")
        _refused(url, status, answer, message, response.headers, proven=proven)
    if isinstance(answer, list) and not proven:
        raise CarbError(
            f"{url} answers with a list, and not as OpenAI and vLLM do. SGLang's own paths are not "
            "read: serve the model with vLLM, or use backend=hf."
        )
    if not isinstance(answer, dict):
        broken_off = answer is None and content.startswith(b"{")
        raise RequestError(
            "http", shown(key, f"the answer is not a JSON object ({form})"), again=broken_off
        )
    if name := repeated_name(content):
        raise RequestError("http", shown(key, f"the answer has two values of '{name}'"))
    if (error := _error_within(answer)) is not None:
        message = shown(key, _message_of(error) or "an error without a message")
        if _code_of(error) == "insufficient_quota":
            raise CarbError(f"{url}: the account has no credit left ({message}).")
        raise RequestError("http", f"an error in place of an answer: {message}", again=True)
    return answer


def _error_within(answer: Answer) -> Answer | None:
    """The error that a provider reports inside an answer with status 200."""
    choices = answer.get("choices") or answer.get("data")
    if (not choices or answer.get("object") == "error") and _message_of(answer):
        return answer
    parts: list[Any] = [answer]
    if isinstance(choices, list):
        parts += choices[:1]
    for part in parts:
        if not isinstance(part, dict):
            continue
        parts.append(part.get("message"))
        if part.get("error"):
            return part
        if part.get("finish_reason") == "error":
            return {"error": "the text ended with finish_reason=error"}
    return None


def shown(key: Secret, text: str) -> str:
    """A message in one line, without the key."""
    return " ".join(key.hidden(text).split())[:_SHOWN]


def _refused(
    url: str, status: int, answer: Any, message: str, headers: Any, *, proven: bool
) -> None:
    code = _code_of(answer)
    if code == "insufficient_quota" or status == 402:
        raise CarbError(f"{url}: the account has no credit left ({status}: {message}).")
    if status == 401:
        raise CarbError(
            f"{url} does not accept the key ({status}: {message}). Name its variable in key_env=."
        )
    if status in {403, 404, 405, 501} and not proven:
        asked = "the key and its permissions" if status == 403 else "url= and the model's name"
        raise CarbError(f"{url} answers {status}: {message}. Are {asked} right?")
    if status in {400, 422} and (parameter := _refused_parameter(answer, message)):
        raise RequestError("http", f"{status}: {message}", parameter=parameter)
    larger = (
        status == 429 and "request too large" in message.lower()
    )  # than the limit on tokens, as OpenAI says it
    passes = status in {408, 409, 425, 429} or (status >= 500 and status != 501)
    if passes and not larger:
        after = retry_after(headers)
        overloaded = status in _OVERLOADED
        raise RequestError(
            "http", f"{status}: {message}", again=True, after=after, overloaded=overloaded
        )
    too_long = (
        larger or code == "context_length_exceeded" or "context length" in message or status == 413
    )
    kind = "too-long" if too_long else "http"
    if code == "content_filter":  # as Azure says it
        kind = "refused"
    raise RequestError(kind, f"{status}: {message}")


def _details(answer: Any) -> Answer:
    """The fields of an answer's error; none where it is a mere text, or is missing."""
    error = None
    if isinstance(answer, dict):
        error = answer.get("error")
    if not isinstance(error, dict):
        return {}
    return error


def _code_of(answer: Any) -> str:
    return str(_details(answer).get("code", ""))


def _refused_parameter(answer: Any, message: str) -> str:
    """The field that a server refuses; empty where it names none."""
    named = _details(answer).get("param")
    if not isinstance(named, str) or not named:
        quoted = re.search(r"[Uu]nsupported (?:parameter|value)\W+(\w+)", message)
        named = quoted[1] if quoted else ""
    unsupported = "unsupported" in _code_of(answer) or "unsupported" in message.lower()
    return named if unsupported else ""


def _message_of(answer: Any) -> str:
    """The message of an error answer, in the several forms that servers give it."""
    if not isinstance(answer, dict):
        return ""
    error = answer.get("error", answer)
    if isinstance(error, dict):
        said = map(error.get, ("message", "detail", "msg", "error_msg"))
        error = next(filter(None, said), "")
    if isinstance(error, str):
        return error
    return json.dumps(error)


def retry_after(headers: Any) -> float:
    """Seconds that a server asks to wait: ``retry-after-ms``, or ``Retry-After`` in seconds. A date
    there is not read: no server of models sends one.
    """
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "").strip()) * unit
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return 0.0
