"""The door: what is refused and why. The secrets are made up here, and of no use anywhere."""

from __future__ import annotations

import random
import string
import time

import pytest

from singularity_memory import door
from singularity_memory.model import Draft


def noise(length: int, letters: str = string.ascii_letters + string.digits) -> str:
    made = random.Random(length).choices(letters, k=length - 2)
    return "".join(made) + "a7"


SECRETS = [
    "deploy with " + "AKIA" + noise(16, string.ascii_uppercase + string.digits).upper(),
    "the bot uses " + "ghp_" + noise(36) + " for now",
    "token " + "glpat-" + noise(20),
    "sk-" + "ant-" + noise(40),
    "call it with " + "sk-" + noise(48),
    "sk_" + "live_" + noise(24),
    "xox" + "b-" + noise(12, string.digits) + "-" + noise(24),
    "AIza" + noise(35),
    "-----BEGIN RSA " + "PRIVATE KEY-----\nabc",
    "postgresql://admin:" + noise(12) + "@db.internal/prod is the address",
    "API_" + 'KEY = "' + noise(32) + '"',
    "client_" + "secret: " + noise(40),
    "eyJ" + noise(20) + ".eyJ" + noise(30) + "." + noise(30),
]


@pytest.mark.parametrize("text", SECRETS)
def test_secrets_stay_out_of_content_and_metadata(text: str) -> None:
    assert door.refusal(Draft(f"Remember that this works: {text}")).startswith("a secret")
    assert door.refusal(Draft("Remember the deployment", metadata={"note": text})).startswith("a secret")


@pytest.mark.parametrize("text", SECRETS)
def test_a_redacted_text_says_the_rest_and_is_let_in(text: str) -> None:
    kept = door.redacted(f"Remember that this works: {text}\nand so does the other parser")
    assert kept.startswith("Remember that this works: ") and "[secret]" in kept
    assert door.refusal(Draft(kept)) == ""


@pytest.mark.parametrize(
    "text",
    [
        "The API key is read from the environment variable SERVICE_API_KEY, never from the file",
        "password = os.environ['DATABASE_PASSWORD_FOR_STAGING2']",
        "token: ${CI_JOB_TOKEN_FOR_2024}",
        "secret = vault://kv/data/app#password1",
        "postgresql://user:$PASSWORD@host/db is how the address is built",
        "the commit 3f786850e387550fdab836ed7e6dc881de23001b broke the token counter",
        "self.access_token = self._token_source.fetch_token(client_id2)",
        "Passwords must have twelve characters and a digit",
        "max_tokens: 128000 and token_limit = 1000000000000",
    ],
)
def test_talk_about_secrets_is_let_in(text: str) -> None:
    assert door.redacted(text) == text
    assert door.refusal(Draft(text)) == ""


@pytest.mark.parametrize(
    ("draft", "reason"),
    [
        (Draft(""), "empty"),
        (Draft(" \n\t "), "empty"),
        (Draft("x " * 60_000), "too long"),
        (Draft("ok"), "says nothing"),
        (Draft("the of and 12 34"), "says nothing"),
        (Draft("done done done " * 40), "says nothing"),
        (Draft("good text\0with a NUL in it"), "not text"),
        (Draft("half a letter \ud800 here"), "not text"),
        (Draft("\x01\x02\x03\x04 binary junk here"), "not text"),
        (Draft("a good memory", document_id="d" * 513), "a document_id"),
        (Draft("a good memory", tags=("",)), "at most 64 tags"),
        (Draft("a good memory", tags=tuple(str(number) for number in range(65))), "at most 64 tags"),
        (Draft("a good memory", metadata={"blob": "ab " * 9000}), "more than"),
    ],
)
def test_junk_is_refused_with_a_reason(draft: Draft, reason: str) -> None:
    assert door.refusal(draft).startswith(reason)


@pytest.mark.parametrize(
    "part",
    ["a.", "a-", "secret-", "token=a ", "eyJaaaaaaaaaa-", "a://b:", "-----BEGIN ", "password  ", "api_key.="],
)
def test_no_text_holds_the_door_up(part: str) -> None:
    text = (part * door.LONGEST)[: door.LONGEST]
    begun = time.process_time()
    door.refusal(Draft(text))
    assert time.process_time() - begun < 5


BOOT = """# Agents
Always run make check before you commit. Never push to main. Tests use a real database and no mocks at all.
Functions stay below fifty lines, and files below three hundred and fifty. Prose is short and plain."""


def test_what_a_boot_file_says_is_not_kept_again() -> None:
    copied = "Never push to main. Tests use a real database and no mocks at all."
    assert door.refusal(Draft(copied), [BOOT]).startswith("restates")
    assert door.refusal(Draft(copied)) == ""
    own = "The integration tests need the database on port 5433, because 5432 is taken on the build machine"
    assert door.refusal(Draft(own), [BOOT]) == ""


@pytest.mark.parametrize(
    "text",
    ["Wir nutzen überall UTF-8 für Dateinamen", "テストは二つのワーカーで実行する", "用两个进程运行测试"],
)
def test_other_languages_are_text_too(text: str) -> None:
    assert door.refusal(Draft(text)) == ""


@pytest.mark.parametrize(
    "text",
    [
        "pass: hunter2",
        'password = "hunter2"',
        "DB_PASSWORD=abc123!",
        "DB_PASSWORD=letmein",
        "export PGPASSWORD=hunter2",
        "DB_PASSWORD_PROD=hunter2",
        "{'password': 'letmein'}",
        '{"password": "hunter2"}',
        "user: bob pass: hunter2",
        "host=db user=app password=abc123 port=5432",
        'dbPass = "x9!k"',
        "psql --password hunter2",
        'password: str = "hunter2"',
        'if password == "hunter2":',
        "the pwd: 123456",
        "PASSWORD: Tr0ub4dor&3",
    ],
)
def test_a_password_that_is_written_out_stays_out_however_short(text: str) -> None:
    told = f"The staging server: {text}"
    assert door.refusal(Draft(told)).startswith("a secret")
    assert "[secret]" in door.redacted(told)
    assert door.refusal(Draft(door.redacted(told))) == ""


@pytest.mark.parametrize(
    "text",
    [
        "The password field must be validated",
        "password = getpass()",
        "def login(name: str, password: str) -> User2:",
        "password: Optional[str] = None",
        "connect(user=user, password=password)",
        "login(name, password=pw)",
        "password=settings.db_password",
        "password: ${DB_PASSWORD}",
        'password = "***"',
        "PASSWORD=<your password>",
        "PASSWORD_RESET_TIMEOUT=3600",
        "password_min_length = 12",
        "Password: must be long and must not be the name",
        "passwords: at least 12 characters",
        "tests pass: 34/34",
        "the second pass: python3.11 is slower, 3x",
        "bypass: feature2",
        "the column password VARCHAR(255)",
        'password = input("password: ")',
        "pwd = ':%s@' % word",
        "--password-file /run/secrets/db1",
        "The page says 'Password: ' and waits",
    ],
)
def test_prose_types_calls_and_references_are_no_passwords(text: str) -> None:
    assert door.refusal(Draft(f"The staging server: {text}")) == ""


def test_a_password_in_metadata_stays_out_whatever_it_looks_like() -> None:
    assert (
        door.refusal(Draft("The staging server", metadata={"password": "letmein"})) == "a secret: a password"
    )
    assert door.refusal(Draft("The staging server", metadata={"password": "$STAGING"})) == ""


def test_looking_for_passwords_takes_no_longer_for_odd_texts() -> None:
    for piece in ("password", "pass ", "password: ", "a.", "password" + " " * 50, "password:" + "x" * 50):
        begun = time.process_time()
        door.refusal(Draft(piece * (90_000 // len(piece))))
        assert time.process_time() - begun < 2.0
