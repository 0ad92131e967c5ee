"""The error tree. Match on `code`, never on text.

SfError
├── Signal            control flow: the work was fine, something told it to stop
│   ├── Paused            paused
│   ├── Canceled          canceled_by_operator | canceled_by_supervisor
│   ├── QuotaWait         rate_limited (carries how long to wait)
│   ├── Unreachable       provider_unreachable
│   └── SpendingReached   budget_reached (carries the scope; exit 4)
├── Mistake           the caller asked for something that cannot be (exit 2 unless it says otherwise)
│   ├── BadUsage, NotAProject, NotARepository, EmptyRepository, DetachedHead
│   ├── UnknownUnit, UnknownBlocker, UnknownQuestion, UnknownRescue
│   ├── InvalidConfig, MissingWorkflow, InvalidWorkflow, InvalidPlan, InvalidPlaybook, InvalidPrompt
│   ├── InvalidTransition, WrongState, ProjectLocked (exit 5)
│   ├── StoreTooNew, StoreTooOld, StoreNotEmpty, StoreForeign, StoreUnusable, DiskUnusable
│   ├── SecretUnavailable, UnsafeConfig, UnsupportedRepository, WorkMissing (BranchGone)
│   └── MemoryUnavailable (MemoryOpening), MemoryRefused
└── RunFailure        a run ended abnormally; `recovery` says what the orchestrator does
    ├── workspace         WorkspaceFailed, SymlinkEscape, GitFailed, HookFailed (HookUntold), HookTimeout
    └── agent_session     AgentStartup, TurnTimeout, UnitTimeout, Stalled, TurnFailed (Transient), NoProduct,
                          OutsideAreas, InputRequired, PromptFailed, BudgetExhausted, ModelUnavailable,
                          SandboxUnavailable, LeaseLost
"""

from __future__ import annotations

from typing import ClassVar, Literal

Recovery = Literal["config", "workspace", "agent_session", "observability"]


class SfError(Exception):
    """An error with a stable code, one line of cause, and what to do next."""

    code: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 1
    unbilled: bool = False
    """A provider answered with a refusal, or was never reached, and so has billed nothing."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def line(self) -> str:
        """The whole error as one line for a terminal."""
        text = " ".join(self.message.split())
        return f"{text} [{self.code}]" + (f" → {self.hint}" if self.hint else "")


# --- signals -------------------------------------------------------------------------------------


class Signal(SfError):
    """Control flow: nothing went wrong, but the work must stop."""

    code = "signal"


class Paused(Signal):
    """The operator or a rule paused the work; nothing is charged."""

    code = "paused"
    exit_code = 3


class Canceled(Signal):
    """The work was called off and must not be retried."""

    code = "canceled_by_operator"


class CanceledBySupervisor(Canceled):
    """A supervisor check called the work off."""

    code = "canceled_by_supervisor"


class QuotaWait(Signal):
    """A provider named a time before which it will not answer; a wait, not a failure."""

    code = "rate_limited"

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class Unreachable(Signal):
    """No connection to a provider could be made, so it was asked nothing; a wait, not a failure."""

    code = "provider_unreachable"


class SpendingReached(Signal):
    """A scope may spend no more: nothing was asked of a model, nothing is charged."""

    code = "budget_reached"
    exit_code = 4

    def __init__(
        self, message: str, *, scope: Literal["unit", "milestone", "session"], key: str, wanted: int
    ) -> None:
        super().__init__(message, hint="raise [budget], or answer with sf reply")
        self.scope = scope
        self.key = key
        self.wanted = wanted
        self.terms: tuple[int, ...] = ()
        """What a request of a fixed size costs with each model of the phase, by the prices of this one."""


# --- mistakes ------------------------------------------------------------------------------------


class Mistake(SfError):
    """The caller asked for something that cannot be."""

    code = "mistake"
    exit_code = 2


class BadUsage(Mistake):
    """A command was called in a way that makes no sense."""

    code = "bad_usage"


class NotAProject(Mistake):
    """There is no .sf/ here or above."""

    code = "not_a_project"


class NotARepository(Mistake):
    """There is no git repository here."""

    code = "not_a_repository"


class EmptyRepository(Mistake):
    """The repository has no commit to start from."""

    code = "empty_repository"


class DetachedHead(Mistake):
    """HEAD is on no branch, so there is nothing to integrate into."""

    code = "detached_head"


class UnsupportedRepository(Mistake):
    """The repository uses a format that sf has not been proven on."""

    code = "unsupported_repository"


class UnknownUnit(Mistake):
    """No unit has this id."""

    code = "unknown_unit"


class UnknownBlocker(Mistake):
    """No open blocker has this id."""

    code = "unknown_blocker"


class UnknownQuestion(Mistake):
    """Nothing that waits for a person has this id."""

    code = "unknown_question"


class UnknownRescue(Mistake):
    """Nothing is parked under this name, or several things are."""

    code = "unknown_rescue"


class InvalidConfig(Mistake):
    """The configuration has errors; all of them are in `problems`."""

    code = "invalid_config"

    def __init__(self, message: str, *, problems: tuple[str, ...] = (), hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.problems = problems


class UnsafeConfig(InvalidConfig):
    """Configuration that came with the repository tries to loosen policy or to run something."""

    code = "unsafe_config"


class MissingWorkflow(Mistake):
    """No workflow template has this name."""

    code = "missing_workflow_file"


class InvalidWorkflow(Mistake):
    """A workflow template does not parse or breaks a rule."""

    code = "workflow_parse_error"


class InvalidPlan(Mistake):
    """A plan breaks a rule; the message names every problem."""

    code = "invalid_plan"


class InvalidPlaybook(Mistake):
    """A scripted model's playbook does not parse."""

    code = "invalid_playbook"


class InvalidPrompt(Mistake):
    """A prompt template names a variable that no caller gives."""

    code = "invalid_prompt"


class InvalidTransition(Mistake):
    """This phase change is not among the permitted ones."""

    code = "invalid_transition"
    exit_code = 1


class WrongState(Mistake):
    """The unit is not in a state in which this command means anything."""

    code = "wrong_state"


class ProjectLocked(Mistake):
    """Another process holds the project."""

    code = "project_locked"
    exit_code = 5


class StoreTooNew(Mistake):
    """The database was written by a newer version of sf."""

    code = "store_too_new"


class StoreTooOld(Mistake):
    """The database was written by an older version of sf and has not been brought up to date."""

    code = "store_too_old"


class StoreNotEmpty(Mistake):
    """A store that rows were to be copied into has rows of its own."""

    code = "store_not_empty"


class StoreForeign(Mistake):
    """A store holds the rows of another repository."""

    code = "store_foreign"


class StoreUnusable(Mistake):
    """The database cannot be opened or written."""

    code = "store_unusable"
    exit_code = 1


class DiskUnusable(Mistake):
    """The machine refused a file: the disk is full, read-only or broken, or too many files are open."""

    code = "disk_unusable"
    exit_code = 1


class WorkMissing(Mistake):
    """Commits that a unit made are not where sf keeps them."""

    code = "work_missing"
    exit_code = 1


class BranchGone(WorkMissing):
    """The branch that a unit is to be merged into is not in the repository."""

    code = "branch_gone"

    def __init__(self, message: str, *, branch: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.branch = branch


class SecretUnavailable(Mistake):
    """A secret reference did not resolve."""

    code = "secret_unavailable"


class MemoryUnavailable(Mistake):
    """The memory does not answer; work goes on without it."""

    code = "memory_unavailable"
    exit_code = 1


class MemoryOpening(MemoryUnavailable):
    """The memory is still being opened: it answers in a moment."""

    code = "memory_opening"


class MemoryRefused(Mistake):
    """The memory answers, and does not do what it was asked."""

    code = "memory_refused"
    exit_code = 1


# --- failures of a run ---------------------------------------------------------------------------


class RunFailure(SfError):
    """A run ended abnormally; it is charged as a try."""

    code = "run_failed"
    recovery: ClassVar[Recovery] = "agent_session"


class WorkspaceFailed(RunFailure):
    """A workspace could not be made or used."""

    code = "workspace_creation_failed"
    recovery = "workspace"


class SymlinkEscape(WorkspaceFailed):
    """A path leads out of its root."""

    code = "workspace_symlink_escape"


class GitFailed(WorkspaceFailed):
    """A git command of sf's own failed, or was killed."""

    code = "git_failed"


class HookFailed(WorkspaceFailed):
    """A hook exited non-zero."""

    code = "hook_failed"


class HookUntold(HookFailed):
    """A hook that is there could not be started: nobody heard of what it was to be told."""

    code = "hook_untold"


class HookTimeout(WorkspaceFailed):
    """A hook ran out of time and was killed."""

    code = "hook_timeout"


class AgentStartup(RunFailure):
    """The agent could not be started."""

    code = "agent_session_startup"


class TurnTimeout(RunFailure):
    """One model request took longer than turn_timeout."""

    code = "turn_timeout"


class UnitTimeout(RunFailure):
    """The run took longer than its unit_timeout."""

    code = "unit_timeout"


class Stalled(RunFailure):
    """Nothing was heard from the agent for stall_timeout."""

    code = "stalled"


class TurnFailed(RunFailure):
    """The provider failed, dropped the stream or answered nonsense."""

    code = "turn_failed"


class Transient(TurnFailed):
    """The same request may succeed later; `retry_after` is when, if the provider said."""

    def __init__(self, message: str, *, hint: str = "", retry_after: float | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class NoProduct(RunFailure):
    """The agent ended without what its phase must produce."""

    code = "no_product"


class OutsideAreas(RunFailure):
    """The attempt changed files that its plan does not allow."""

    code = "outside_areas"


class InputRequired(RunFailure):
    """The agent asked for input in hard mode."""

    code = "turn_input_required"


class PromptFailed(RunFailure):
    """A prompt could not be rendered."""

    code = "prompt_render_failed"


class BudgetExhausted(RunFailure):
    """The context window reached its hard limit."""

    code = "budget_exhausted"


class ModelUnavailable(RunFailure):
    """The provider does not know the model or refuses the key."""

    code = "model_unavailable"


class SandboxUnavailable(RunFailure):
    """The profile asks for a sandbox and this machine has none."""

    code = "sandbox_unavailable"


class LeaseLost(RunFailure):
    """The claim under which this run worked has ended; nothing may be written for it."""

    code = "lease_lost"
