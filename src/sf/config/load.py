"""Loading: global file, then the project's on top of it, key by key; all errors at once."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

from sf.config import check
from sf.config.schema import Attention, Config, Hooks, Memory
from sf.domain import attention
from sf.domain.phases import Phase
from sf.errors import InvalidConfig, UnsafeConfig
from sf.store import place

_MODEL = re.compile(r"[a-z0-9_-]+:\S+")
_HOOK_TYPES = (
    *("before_run", "after_run", "after_create", "before_remove"),
    *("pre_dispatch", "pre_tool_use", "post_unit", "on_event"),
)
_SHORTEST = 0.01
_LOOSER = {"off": 0, "workspace": 1, "workspace-no-network": 2, "read-only": 3}


def read_toml(path: Path, problems: list[str]) -> dict[str, Any]:
    """A file as a table; missing is empty, unreadable is a problem."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        problems.append(f"{path}: cannot be read: {error}")
    except tomllib.TOMLDecodeError as error:
        problems.append(f"{path}: not valid TOML: {error}")
    return {}


def load(global_file: Path, project_file: Path, *, project_file_is_tracked: bool = False) -> Config:
    """The configuration in force. Raises InvalidConfig (exit 2) listing every problem of both files.

    A project file that git tracks came with the repository: it may tighten policy, never loosen it, and
    may not make sf run or contact anything.
    """
    found: list[str] = []
    layers = []
    for file in (global_file, project_file):
        raw = read_toml(file, found)
        problems = check.Problems(str(file))
        config = check.section(raw, Config, problems)
        found += problems.found or _cross_checks(config or Config(), str(file))
        layers.append(raw)
    if found:
        raise InvalidConfig(f"{len(found)} problem(s) in the configuration", problems=tuple(found))
    if project_file_is_tracked:
        _refuse_loosening(layers[0], layers[1], str(project_file))
    merged = _merged(layers[0], layers[1])
    if project_file_is_tracked:
        _keep_gates(layers[0], merged)
    problems = check.Problems(str(project_file))
    config = check.section(merged, Config, problems) or Config()
    late = problems.found or _cross_checks(config, str(project_file))
    if late:
        raise InvalidConfig(f"{len(late)} problem(s) in the configuration", problems=tuple(late))
    return config


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        lower = result.get(key)
        both_tables = isinstance(lower, dict) and isinstance(value, dict)
        result[key] = _merged(lower, value) if both_tables and lower is not None else value
    return result


def _cross_checks(config: Config, file: str) -> list[str]:
    harness = config.harness
    found = []
    if harness.context_compact_at >= harness.context_hard_limit:
        found.append(f"{file}: harness.context_compact_at: must be below harness.context_hard_limit")
    for tier in ("fast", "standard", "reasoning"):
        for model in getattr(config.tiers, tier).models:
            if not _MODEL.fullmatch(model):
                found.append(
                    f'{file}: tiers.{tier}.models: "{model}" must be "provider:model", '
                    'such as "anthropic:claude-sonnet-4-6"'
                )
    for name, provider in config.providers.items():
        if provider.api_key and not _is_reference(provider.api_key):
            found.append(
                f"{file}: providers.{name}.api_key: plaintext keys are refused; "
                'use "$(command that prints it)" or the provider\'s environment variable'
            )
    found += [f"{file}: {problem}" for problem in _attention_problems(config.attention)]
    found += [f"{file}: store.url: {wrong}" for wrong in _store_problems(config.store.url)]
    found += [f"{file}: memory.{wrong}" for wrong in _memory_problems(config.memory)]
    found += [f"{file}: harness.hooks.{wrong}" for wrong in _hook_problems(harness.hooks)]
    # Without these the loop would never rest, and a memory that hangs would hold work up.
    for key, value in (("harness.tick", harness.tick), ("memory.deadline", config.memory.deadline)):
        if value < _SHORTEST:
            found.append(f"{file}: {key}: must be 10ms or more")
    if Phase.COMPLETE in harness.concurrency.max_agents_by_phase:
        found.append(f"{file}: harness.concurrency.max_agents_by_phase.complete: nothing runs in complete")
    return found


def _is_reference(text: str) -> bool:
    return re.fullmatch(r"\$\(.+\)", text, re.DOTALL) is not None


def _attention_problems(settings: Attention) -> list[str]:
    found = []
    for kind in {*settings.defaults, *settings.deadlines}:
        if kind not in settings.defaults or kind not in settings.deadlines:
            found.append(f"attention: {kind} needs both a default and a deadline")
        elif not attention.takes(kind, settings.defaults[kind]):
            found.append(f"attention.defaults.{kind}: takes {attention.ANSWERS[kind]}")
        elif not attention.may_be_default(kind, settings.defaults[kind]):
            found.append(
                f"attention.defaults.{kind}: only a person allows more runs; "
                f'take it out, or let it be "{attention.ABANDON}"'
            )
    return found


def _hook_problems(hooks: Hooks) -> list[str]:
    allowed = ", ".join(_HOOK_TYPES)
    unknown = [hook for hook in hooks.timeouts if hook not in _HOOK_TYPES]
    found = [f"timeouts.{hook}: unknown hook; allowed: {allowed}" for hook in unknown]
    # The loop itself waits for some of them: one that hangs would be there for ever.
    endless = [hook for hook, limit in hooks.timeouts.items() if limit < _SHORTEST]
    found += [f"timeouts.{hook}: a hook needs a limit, 10ms or more" for hook in endless]
    for key, command in hooks.commands():
        try:
            if not (words := shlex.split(command)) or not words[0]:
                found.append(f"{key}: {command!r} is no command")
        except ValueError as error:
            found.append(f"{key}: {command!r} is no command: {str(error).lower()} (quote as in a shell)")
    return found


def _store_problems(url: str) -> list[str]:
    if not url or place.is_reference(url):
        return []
    wrong = place.problem(url)
    if not wrong and place.has_password(url):
        wrong = 'plaintext passwords are refused; use "$(command that prints the url)" or a ~/.pgpass file'
    return [wrong] if wrong else []


def _memory_problems(settings: Memory) -> list[str]:
    found = []
    if settings.mode == "remote" and not (settings.url and settings.api_key):
        found.append('mode: "remote" needs url and api_key')
    if settings.embedder in ("openai", "ollama") and not settings.embedder_model:
        found.append(f'embedder: "{settings.embedder}" needs embedder_model')
    for name in ("url", "embedder_url"):
        address = getattr(settings, name)
        if address and not re.fullmatch(r"https?://[^\s/@]+(/\S*)?", address):
            found.append(f"{name}: must be http://host:port or https://host:port, without a login")
    for name in ("api_key", "embedder_key"):
        if getattr(settings, name) and not _is_reference(getattr(settings, name)):
            found.append(f'{name}: plaintext keys are refused; use "$(command that prints it)"')
    return found


def _keep_gates(base: dict[str, Any], merged: dict[str, Any]) -> None:
    """A file that came with the repository may add gates to the user's own, never take one away."""
    own = base.get("harness", {}).get("gates", {})
    for level in ("post_task", "post_slice", "post_milestone"):
        if own.get(level):
            table = merged["harness"]["gates"]
            table[level] = list(dict.fromkeys([*own[level], *table.get(level, [])]))


def _refuse_loosening(base: dict[str, Any], project: dict[str, Any], file: str) -> None:
    found = []
    if project.get("providers"):
        found.append(f"{file}: providers: a file that git tracks may not set providers or keys")
    if project.get("harness", {}).get("hooks"):
        found.append(f"{file}: harness.hooks: a file that git tracks may not run commands on your machine")
    if project.get("attention"):
        found.append(f"{file}: attention: a file that git tracks may not answer in your place")
    if "keep_archive" in project.get("housekeeping", {}):
        found.append(f"{file}: housekeeping.keep_archive: a file that git tracks may not throw anything away")
    limits = [("budget", key) for key in project.get("budget", {})]
    limits += [("housekeeping", "max_worktrees_gb")] * ("max_worktrees_gb" in project.get("housekeeping", {}))
    for table, key in limits:
        wanted, present = project[table][key], base.get(table, {}).get(key, 0)
        if present and not 0 < wanted <= present:
            found.append(f"{file}: {table}.{key}: a file that git tracks may not raise {present} to {wanted}")
    if project.get("harness", {}).get("log"):
        found.append(f"{file}: harness.log: a file that git tracks may not choose where sf writes")
    named = [model for tier in project.get("tiers", {}).values() for model in tier.get("models", ())]
    if any(str(model).startswith("script:") for model in named):
        found.append(f"{file}: tiers: a file that git tracks may not play a script in a model's place")
    if project.get("store"):
        found.append(f"{file}: store: a file that git tracks may not choose where sf keeps its rows")
    if project.get("memory", {}).keys() - {"top_k"} and project["memory"] != {"mode": "off"}:
        found.append(f"{file}: memory: a file that git tracks may not choose where sf keeps what it learns")
    if "prefer" in project.get("sandbox", {}):
        found.append(f"{file}: sandbox.prefer: a file that git tracks may not choose the kind of sandbox")
    if project.get("sandbox", {}).get("readable"):
        found.append(f"{file}: sandbox.readable: a file that git tracks may not open paths of your machine")
    for key in ("profile", "gate_profile"):
        wanted = project.get("sandbox", {}).get(key)
        present = base.get("sandbox", {}).get(key, "workspace-no-network")
        if wanted is not None and _LOOSER[wanted] < _LOOSER[present]:
            found.append(
                f'{file}: sandbox.{key}: a file that git tracks may not loosen "{present}" to "{wanted}"'
            )
    if found:
        raise UnsafeConfig(
            f"{len(found)} setting(s) in a configuration file that came with the repository",
            problems=tuple(found),
            hint="put them into ~/.sf/config.toml, or stop tracking the file",
        )
