"""A provider's failures as errors of the tree: what to wait for, what to retry, what is final."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
from pydantic_ai import exceptions as refused

from sf import errors
from sf.errors import Transient

_RETRIED_STATUSES = frozenset({408, 409, 425})
_BEFORE_SENDING = ("pool", "connect")


def translated(error: Exception, *, provider: str, model: str, address: str, api_key: str) -> errors.SfError:
    """The error of the tree for one of pydantic-ai's; the key stands nowhere in it."""
    if _is_unsent(error):
        reason = _scrubbed(_innermost(error), api_key)
        unreached = errors.Unreachable(f"cannot reach {address} for {provider}:{model}: {reason}")
        unreached.unbilled = True
        return unreached
    result = _translated(error, provider, model, api_key)
    result.unbilled = isinstance(error, refused.ModelHTTPError)
    return result


def _is_unsent(error: Exception) -> bool:
    """Whether the request was not sent: there was no connection, or a proxy made none."""
    if isinstance(error, refused.ModelConnectionError) and error.phase in _BEFORE_SENDING:
        return True
    return any(isinstance(cause, httpx2.ProxyError) for cause in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from, the innermost last."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _innermost(error: Exception) -> str:
    """What the machine or the proxy said; what the libraries around it say names no reason."""
    said = [str(cause) for cause in _causes(error) if isinstance(cause, OSError | httpx2.TransportError)]
    return next((text for text in reversed(said) if text), str(error))


def _translated(error: Exception, provider: str, model: str, api_key: str) -> errors.SfError:
    text = _scrubbed(_said(error), api_key)
    name = f"{provider}:{model}"
    match error:
        case refused.ModelRequestTimeout():
            return errors.TurnTimeout(
                f"{name}: {text}", hint="raise [harness] turn_timeout if the model needs longer"
            )
        case refused.ModelAuthenticationError():
            return errors.ModelUnavailable(
                f"{name} refused the key: {text}",
                hint=f"check providers.{provider}.api_key and what it may use",
            )
        case refused.ModelNotFoundError():
            return errors.ModelUnavailable(
                f"{name} is not known to its provider: {text}",
                hint=f"check the model's name, and providers.{provider}.base_url",
            )
        case refused.ModelQuotaExceededError():
            return errors.ModelUnavailable(
                f"{name}: the account is out of credit: {text}",
                hint=f"add credit to the account behind providers.{provider}.api_key",
            )
        case refused.ModelContextWindowExceededError():
            return errors.TurnFailed(f"{name}: the context is too long: {text}")
        case refused.ModelAPIError():
            return _service_failure(error, f"{name}: {text}")
        case refused.UnexpectedModelBehavior():
            return Transient(f"{name} answered nonsense: {text}")
        case _:
            return errors.TurnFailed(f"{name}: {text}")


def _service_failure(error: refused.ModelAPIError, text: str) -> errors.SfError:
    if isinstance(error, refused.ModelRequestRejectedError):
        return errors.TurnFailed(text)
    if (
        isinstance(error, refused.ModelRateLimitError | refused.ModelOverloadedError)
        and error.retry_after is not None
    ):
        return errors.QuotaWait(text, seconds=error.retry_after)
    if isinstance(error, refused.ModelHTTPError) and error.status_code < 500:
        waits = isinstance(error, refused.ModelRateLimitError) or error.status_code in _RETRIED_STATUSES
        return Transient(text, retry_after=error.retry_after) if waits else errors.TurnFailed(text)
    return Transient(text, retry_after=error.retry_after)


def _said(error: Exception) -> str:
    """The provider's own words, without the wrapping."""
    if isinstance(error, refused.ModelHTTPError) and isinstance(error.body, dict):
        inner = error.body.get("error", error.body)
        if isinstance(inner, dict) and isinstance(inner.get("message"), str):
            return f"{inner['message']} (HTTP {error.status_code})"
    return str(error)


def _scrubbed(text: str, api_key: str) -> str:
    return text.replace(api_key, "[key]") if api_key else text
