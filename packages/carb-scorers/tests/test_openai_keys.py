"""Keys that are sent and never shown, and addresses that they are sent to."""

import json
import logging
import pickle
from collections.abc import Callable
from urllib.parse import quote

import pytest

from carb_data import CarbError
from carb_data.validation import read_options
from carb_scorers.models.protocol import Failure, Generation
from carb_scorers.models.server_options import ServerLanguageOptions
from carb_scorers.models.server_retries import Endpoint

pytest.importorskip("httpx", reason="needs the extra carb-scorers[api]")

from openai_server import Server, ask, chat, model, reply

KEY = "sk-do-not-show-this-0123456789"


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return KEY


def test_the_key_is_sent_and_seen_nowhere(
    serve: Callable[..., Server],
    key: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    say = {"error": {"message": f"Incorrect API key provided: {key}. Bearer {key}"}}
    server = serve(
        [
            chat(f"your key is {key}"),
            reply(say, 400),
            reply(f"<b>{key}</b>".encode()),
            reply(say, 401),
        ]
    )
    opened = model(server.url, concurrency=1)
    texts = [
        repr(opened),
        repr(vars(opened)),
        *(repr(vars(value)) for value in vars(opened).values() if isinstance(value, Endpoint)),
    ]
    found = ask(opened, 3)
    texts += [repr(found)]
    with pytest.raises(CarbError) as caught:
        ask(opened, 1)
    texts += [
        str(caught.value),
        repr(caught.value),
        str(caught.getrepr(showlocals=False, style="short")),
    ]
    assert all(headers["Authorization"] == f"Bearer {key}" for headers in server.headers)
    assert caplog.records  # httpx does log
    texts += [caplog.text, *(str(vars(record)) for record in caplog.records), *capfd.readouterr()]
    for text in texts:
        assert key not in text
        assert key[3:20] not in text
    with pytest.raises(TypeError):
        pickle.dumps(opened)


def test_no_spelling_of_json_lets_the_key_through(
    serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk/slash-and-more/0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    plain = json.dumps(chat("key: KEY"))
    spelled = [secret.replace("/", "\\/"), "".join(f"\\u{ord(c):04x}" for c in secret)]
    server = serve([reply(plain.replace("KEY", one).encode()) for one in spelled])
    for one in ask(model(server.url, concurrency=1), 2):
        assert isinstance(one, Generation)
        assert one.text == "key: ***"


def test_a_key_by_another_name(
    serve: Callable[..., Server], key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "other\n")
    server = serve([chat()])
    ask(model(server.url, key_env="MINE"))
    assert server.headers[0]["Authorization"] == "Bearer other"


def test_a_missing_key_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(CarbError, match="OPENAI_API_KEY holds no key"):
        model("https://api.openai.com/v1")
    with pytest.raises(CarbError, match="key_env=") as caught:
        model("http://127.0.0.1:1/v1", key_env="sk-secret")
    assert "sk-secret" not in str(caught.value), "a key may stand in place of its variable's name"
    monkeypatch.setenv("ODD", "sk-ключ")
    with pytest.raises(CarbError, match="ODD holds characters") as caught:
        model("http://127.0.0.1:1/v1", key_env="ODD")
    assert "ключ" not in str(caught.value)


def test_a_key_is_not_sent_in_the_clear_unless_it_was_named(key: str) -> None:
    def header(url: str, **options: str) -> dict[str, str]:
        read = read_options(ServerLanguageOptions, "test", {"url": url, **options})
        return Endpoint(read, None).key.header()

    assert header("http://node7:8000/v1") == {}
    assert header("http://node7:8000/v1", key_env="OPENAI_API_KEY")
    for url in (
        "https://node7/v1",
        "http://localhost:1/v1",
        "http://127.3.2.1:1/v1",
        "http://[::1]:1/v1",
    ):
        assert header(url), url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.openai.com",
        "ftp://x/v1",
        "http://",
        "file:///etc/passwd",
        "http://x/v1?key=1",
        "http://[x/v1",
        "http://0177.0.0.1:8000/v1",
    ],
)
def test_addresses_must_be_addresses(url: str) -> None:
    with pytest.raises(CarbError, match="url= must be"):
        model(url)


def test_a_password_in_an_address_is_refused_and_not_repeated() -> None:
    with pytest.raises(CarbError, match="password") as caught:
        model("http://user:hunter2@127.0.0.1/v1")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize("form", ["data: {}", '{{"error": {{"message": "{}'], ids=["SSE", "cut"])
def test_an_answer_that_is_no_json_shows_no_spelling_of_the_key(
    serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch, form: str, status: int
) -> None:
    secret = "sk/slash-and-more/0123456789"
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    spelled = [
        secret.replace("/", "\\/"),
        "".join(f"\\u{ord(c):04X}" for c in secret),
        quote(secret, safe=""),
    ]
    server = serve([reply(form.format(one).encode(), status) for one in spelled])
    for one in ask(model(server.url, concurrency=1), 3):
        assert isinstance(one, Failure)
        for shown in ("slash", "006C", "more"):
            assert shown not in one.error.message
