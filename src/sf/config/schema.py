"""Every key of config.toml, with its default. Unknown keys are errors."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from sf.config.durations import Seconds
from sf.domain.attention import Kind as AttentionKind
from sf.domain.facts import WorktreeMode
from sf.domain.phases import Phase

Fraction = Annotated[float, Meta(gt=0, le=1)]
Positive = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
Money = Annotated[float, Meta(ge=0, le=1e9)]
Tier = Literal["fast", "standard", "reasoning"]
HookEvent = Literal[
    "phase_change",
    "worktree_create",
    "worktree_delete",
    "merge_ready",
    "merge_conflict",
    "gate_blocked",
    "held",
]
SandboxProfile = Literal["off", "workspace", "workspace-no-network", "read-only"]


_CAPS = {Phase.EXECUTE: 4, Phase.TDD: 4, Phase.VERIFY: 10, Phase.REVIEW: 4}
_TIMEOUTS = {
    Phase.RESEARCH: Seconds(1800),
    Phase.PLAN: Seconds(1200),
    Phase.EXECUTE: Seconds(900),
    Phase.TDD: Seconds(600),
    Phase.VERIFY: Seconds(600),
    Phase.REVIEW: Seconds(900),
    Phase.MERGE: Seconds(900),
    Phase.REASSESS: Seconds(1200),
    Phase.UAT: Seconds(0),
}


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The base of every table."""


class Concurrency(Section, frozen=True):
    """[harness.concurrency]"""

    max_agents: Positive = 10
    max_agents_by_phase: dict[Phase, Positive] = {}

    def cap(self, phase: Phase) -> int:
        """How many units may be in a phase at once."""
        return self.caps().get(phase, self.max_agents)

    def caps(self) -> dict[Phase, int]:
        """How many units may be in a phase at once, where there is a cap; merges are always one at a time."""
        return {**_CAPS, **self.max_agents_by_phase, Phase.MERGE: 1}


class Hooks(Section, frozen=True):
    """[harness.hooks]: commands of the operator's, run outside the sandbox."""

    pre_dispatch: tuple[str, ...] = ()
    pre_tool_use: tuple[str, ...] = ()
    on_event: dict[HookEvent, tuple[str, ...]] = {}
    post_unit: tuple[str, ...] = ()
    after_create: str = ""
    before_run: str = ""
    after_run: str = ""
    before_remove: str = ""
    timeouts: dict[str, Seconds] = {}

    def commands(self) -> list[tuple[str, str]]:
        """Every command that is configured, each with its key; an empty one that stands alone is none."""
        listed = {key: getattr(self, key) for key in ("pre_dispatch", "pre_tool_use", "post_unit")}
        listed |= {f"on_event.{event}": commands for event, commands in self.on_event.items()}
        alone = ("after_create", "before_run", "after_run", "before_remove")
        found = [(key, command) for key, commands in listed.items() for command in commands]
        return [*found, *((key, command) for key in alone if (command := getattr(self, key)))]


class Gates(Section, frozen=True):
    """[harness.gates]: scripts that prove or refuse a tree."""

    post_task: tuple[str, ...] = ()
    post_slice: tuple[str, ...] = ()
    post_milestone: tuple[str, ...] = ()
    max_retries: dict[str, Count] = {}
    timeouts: dict[str, Seconds] = {}


class Log(Section, frozen=True):
    """[harness.log]"""

    path: str = ""
    max_size: Positive = 10 * 1024 * 1024
    max_files: Positive = 5
    stderr: bool = False


class Harness(Section, frozen=True):
    """[harness]"""

    context_compact_at: Fraction = 0.80
    context_hard_limit: Fraction = 0.95
    context_window: Positive = 200_000
    max_output_tokens: Positive = 16_000
    unit_timeout: Seconds | None = None
    turn_timeout: Seconds = Seconds(300)
    stall_timeout: Seconds = Seconds(120)
    tool_timeout: Seconds = Seconds(120)
    tool_abort_grace: Seconds = Seconds(5)
    tool_abort_kill: Seconds = Seconds(3)
    max_turns_per_attempt: Positive = 50
    hot_cache_turns: Positive = 10
    stale_turns: Count = 10
    max_attempts: Positive = 6
    retry_backoff: Seconds = Seconds(10)
    max_retry_backoff: Seconds = Seconds(300)
    max_runs_per_unit: Positive = 100
    max_children: Positive = 50
    tick: Seconds = Seconds(1)
    turn_input_required: Literal["soft", "hard"] = "soft"
    worktree_mode: WorktreeMode = "branch-per-slice"
    default_workflow: str = ""
    integration_branch: str = ""
    unit_timeout_by_phase: dict[Phase, Seconds] = {}
    concurrency: Concurrency = Concurrency()
    hooks: Hooks = Hooks()
    gates: Gates = Gates()
    log: Log = Log()

    def timeout(self, phase: Phase) -> Seconds:
        """How long a run may take in a phase; 0 is no limit, as for acceptance, which waits for a person."""
        own = self.unit_timeout_by_phase.get(phase, None if phase is Phase.UAT else self.unit_timeout)
        return own if own is not None else _TIMEOUTS.get(phase, Seconds(600))


class Price(Section, frozen=True):
    """[providers.<name>.prices.<model>]: US dollars per million tokens, for models with no known price."""

    input: Money
    output: Money
    cache_read: Money | None = None
    cache_write: Money | None = None


class Provider(Section, frozen=True):
    """[providers.<name>]"""

    base_url: str = ""
    api_key: str = ""
    prices: dict[str, Price] = {}


class TierModels(Section, frozen=True):
    """[tiers.<name>]"""

    models: Annotated[tuple[str, ...], Meta(min_length=1)]


class Tiers(Section, frozen=True):
    """[tiers]: which models each tier has; the first is used."""

    fast: TierModels = TierModels(models=("anthropic:claude-haiku-4-5",))
    standard: TierModels = TierModels(models=("anthropic:claude-sonnet-4-6",))
    reasoning: TierModels = TierModels(models=("anthropic:claude-opus-4-7",))


class Routing(Section, frozen=True):
    """[routing]: which tier works in each phase."""

    research: Tier = "reasoning"
    plan: Tier = "reasoning"
    execute: Tier = "standard"
    tdd: Tier = "standard"
    verify: Tier = "fast"
    review: Tier = "standard"
    merge: Tier = "fast"
    complete: Tier = "fast"
    reassess: Tier = "reasoning"


class Sandbox(Section, frozen=True):
    """[sandbox]: what contains the agent's commands, and the gates'."""

    profile: SandboxProfile = "workspace-no-network"
    gate_profile: SandboxProfile = "workspace-no-network"
    prefer: Literal["auto", "bubblewrap", "landlock"] = "auto"
    readable: tuple[str, ...] = ()


class Budget(Section, frozen=True):
    """[budget]: the most that may be spent, in US dollars; 0 is no limit."""

    session_usd: Money = 0.0
    milestone_usd: Money = 0.0
    unit_usd: Money = 0.0


class Attention(Section, frozen=True):
    """[attention]: what waits for a person."""

    max_waiting: Positive = 20
    defaults: dict[AttentionKind, str] = {}
    deadlines: dict[AttentionKind, Seconds] = {}


class Store(Section, frozen=True):
    """[store]: where rows are kept; empty is the project's own file."""

    url: str = ""


class Memory(Section, frozen=True):
    """[memory]: where lessons are kept; `path` and `embedder` are for the embedded one."""

    mode: Literal["embedded", "remote", "off"] = "embedded"
    url: str = ""
    api_key: str = ""
    path: str = ""
    embedder: Literal["sentence", "static", "openai", "ollama", "none"] = "sentence"
    embedder_model: str = ""
    embedder_url: str = ""
    embedder_key: str = ""
    top_k: Annotated[int, Meta(ge=1, le=50)] = 5
    deadline: Seconds = Seconds(2)


class Housekeeping(Section, frozen=True):
    """[housekeeping]: what may lie about, and for how long."""

    keep_archive: Seconds = Seconds(0)
    max_worktrees_gb: Annotated[float, Meta(ge=0)] = 0.0


class Config(Section, frozen=True):
    """The whole of config.toml."""

    harness: Harness = Harness()
    providers: dict[str, Provider] = {}
    tiers: Tiers = Tiers()
    routing: Routing = Routing()
    sandbox: Sandbox = Sandbox()
    budget: Budget = Budget()
    attention: Attention = Attention()
    store: Store = Store()
    memory: Memory = Memory()
    housekeeping: Housekeeping = Housekeeping()


SESSION_IMMUTABLE = (
    ("harness", "worktree_mode"),
    ("harness", "context_compact_at"),
    ("harness", "context_hard_limit"),
    ("store", "url"),
    ("memory", "mode"),
    ("memory", "url"),
    ("memory", "path"),
    ("memory", "embedder"),
)
"""Keys that a running session keeps as it began; a change is shown as drift."""
