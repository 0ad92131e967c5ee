"""Putting an autopilot together: configuration, repository, database, sandbox, models, loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec

from sf.app import clones, forewarnings, ignored, periods, reversals, stores
from sf.app.belongings import require_told
from sf.app.farewell import Farewell
from sf.app.intake import rules_of
from sf.app.logs import log_of
from sf.app.memories import bank_of, open_memory
from sf.app.models import Keys, open_hosted, preflight, settings_of
from sf.app.rereading import Rereading
from sf.app.trust import gates_of, require_own_folder
from sf.app.witnesses import LOGGED, TRACED, Watcher, complaints, gatherer, spans
from sf.config.reload import LiveConfig
from sf.config.schema import Config
from sf.domain import events
from sf.domain.clock import SystemClock
from sf.errors import (
    BranchGone,
    DetachedHead,
    EmptyRepository,
    InvalidConfig,
    SandboxUnavailable,
    SfError,
    StoreForeign,
    StoreUnusable,
)
from sf.harness.desk import Desk
from sf.harness.herald import Herald
from sf.harness.hooks import HookRunner
from sf.harness.knowledge import Knowledge
from sf.harness.prompts import Prompts
from sf.harness.workshop import Workshop
from sf.observe.bus import Bus
from sf.observe.trace import Tracer
from sf.paths import Project, identify
from sf.policy import sandbox, search_path
from sf.policy.sandbox import Sandbox
from sf.providers.catalog import Catalog
from sf.review import places
from sf.scheduler import conduct, doorbell, lock
from sf.scheduler.admission import Selection
from sf.scheduler.courier import Courier
from sf.scheduler.housekeeping import Housekeeper
from sf.scheduler.loop import Loop, Result
from sf.scheduler.signposts import Signposts
from sf.store import sessions
from sf.store.connection import transact
from sf.store.database import Database
from sf.store.place import Url
from sf.store.tx import Tx
from sf.workspaces.git import Git
from sf.workspaces.owned import OwnedRepository
from sf.workspaces.repository import UserRepository

__all__ = ["Result", "Selection", "autopilot", "open_desk"]


async def autopilot(
    project: Project, watch: Watcher = lambda event: None, selection: Selection | None = None
) -> Result:
    """Run the loop in this process until it is done, waits for someone, or is stopped."""
    require_own_folder(project.dot)
    with lock.hold(project, lock.AUTOPILOT) as held:
        async with contextlib.AsyncExitStack() as stack:
            try:
                desk, live = await stack.enter_async_context(open_desk(project, watch, held.descriptor))
            except StoreForeign:
                raise
            except SfError as error:
                await asyncio.to_thread(_record_refusal, project, error)
                raise
            loop = Loop(
                desk,
                live,
                conduct.inline(desk),
                held.holder.name,
                apply_config=lambda config: _apply(desk, config),
                selection=selection,
            )
            async with _bells(desk, loop):
                farewell = Farewell()
                restore = _on_signals((loop.stop, farewell.cut_short), desk.database.hurry)
                signposts = Signposts(project)
                desk.bus.subscribe(signposts)
                herald = Herald(desk)
                desk.bus.subscribe(herald)
                courier = Courier(desk, desk.knowledge.memory) if desk.knowledge.memory else None
                if courier is not None:
                    desk.bus.subscribe(courier)
                signposts.started(held.holder.name)
                try:
                    result = await loop.run()
                    await Housekeeper(desk).look()
                    is_heard = await _record_end(desk, result, seats=1)
                    if result.ending == "paused":
                        signposts.paused(result.detail)
                finally:
                    signposts.ended()
                    try:
                        await farewell.bid(herald, *((courier,) if courier else ()))
                    finally:
                        restore()
                if farewell.is_cut_short:
                    result = msgspec.structs.replace(result, ending="interrupted")
                late = await _apply_late(desk, loop, result)
                if late != result:
                    result, is_heard = late, await _record_end(desk, late, seats=1)
            if is_heard and isinstance(desk.database.place, Url):
                # Two that end together each saw the other, and one that started while this one took its leave
                # saw this one: whoever gave up the last seat sees none.
                await _record_end(desk, result, seats=0)
            return result


@contextlib.asynccontextmanager
async def _bells(desk: Desk, loop: Loop) -> AsyncIterator[None]:
    """What wakes the loop: a datagram on this machine and, where rows are on a server, a notification."""
    async with contextlib.AsyncExitStack() as closing:
        place = desk.database.place
        if isinstance(place, Url):
            from sf.scheduler.notices import Notices

            def evicted() -> None:
                desk.log.error("another autopilot took the project while the server was out of reach")
                loop.stop()

            closing.push_async_callback(Notices(place, loop.wake, evicted).aclose)
        closing.callback(doorbell.Doorbell(desk.project.runtime, loop.wake).close)
        yield


def _record_refusal(project: Project, error: SfError) -> None:
    """Leave for `sf status` why the session did not start; a project that has no session yet has no row.

    The row is shared by every folder on a store: while an autopilot of another one lives, it is that one's.
    """

    def write(tx: Tx) -> None:
        session = sessions.current(tx)
        if session is not None and session["status"] != "paused" and not sessions.seats(tx):
            sessions.set_status(tx, session["id"], "failed", SystemClock().now(), error.line())

    with contextlib.suppress(SfError):
        transact(stores.place_of(project), write)


def _on_signals(stops: Sequence[Callable[[], None]], hurry: Callable[[], None]) -> Callable[[], None]:
    """End the session in order on Ctrl-C, on a request to end, and when the terminal is closed."""
    running = asyncio.get_running_loop()
    # Under nohup a hang-up is ignored, and stays so.
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    numbers = (signal.SIGINT, signal.SIGTERM, *(() if ignored else (signal.SIGHUP,)))

    def stop() -> None:
        for each in stops:
            each()

    for number in numbers:
        running.add_signal_handler(number, stop)
        # Heard at once, even while the event loop itself waits for a database that says nothing.
        signal.signal(number, lambda *_: hurry())

    def restore() -> None:
        for number in numbers:
            running.remove_signal_handler(number)

    return restore


async def _record_end(desk: Desk, result: Result, *, seats: int) -> bool:
    """Write how the session ended; not while more autopilots than `seats` have a seat.

    One that was stopped has ended even if the store does not hear of it: that is said, and returns False.
    """
    now = desk.clock.now()
    statuses: dict[str, sessions.SessionStatus] = {
        "failed": "failed",
        "interrupted": "interrupted",
        "done": "idle",
        "waiting": "idle",
        "budget": "idle",
        # And resumed while it ended.
        "paused": "idle",
    }

    def write(tx: Tx) -> None:
        session = sessions.current(tx)
        # What the operator paused stays paused, however the loop ended; what others work on goes on.
        if session is None or session["status"] == "paused" or result.ending not in statuses:
            return
        # Without a seat of one's own: what another wrote down as it ended stands.
        if sessions.seats(tx) > seats or (not seats and session["status"] != "running"):
            return
        sessions.set_status(tx, session["id"], statuses[result.ending], now, result.detail)

    try:
        await desk.database.write(write)
    except StoreUnusable as error:
        if result.ending != "interrupted":
            raise
        desk.announce(events.WARNING, detail=f"the end was not written down: {error.line()}", log=True)
        return False
    return True


async def _apply_late(desk: Desk, loop: Loop, result: Result) -> Result:
    """Apply what commands asked for while the end was told: they count on whoever holds the lock."""
    try:
        return await loop.apply_late(result)
    except StoreUnusable as error:
        if result.ending != "interrupted":
            raise
        detail = f"what was asked for at the end waits for the next start: {error.line()}"
        desk.announce(events.WARNING, detail=detail, log=True)
        return result


@contextlib.asynccontextmanager
async def open_desk(
    project: Project, watch: Watcher, lock_descriptor: int
) -> AsyncIterator[tuple[Desk, LiveConfig]]:
    """Everything that a running autopilot needs, and the configuration that it watches."""
    # Git processes hold the project's lock too: once it is taken again, none of a killed sf is left.
    git = Git(held=(lock_descriptor,))
    identify(project)
    user = await UserRepository.open(project.root, project.facade, git)
    # Before the checkout is looked at: what a killed landing left there is no git at work, nor a branch's.
    landing = await user.recover_landing()
    if landing:
        # At once: its journal is gone, and a start that is refused for another reason could not say it later.
        watch(events.Event(events.WARNING, SystemClock().now(), data={"detail": landing}))
        log_of(project, Config()).warning(landing)
    ignored.keep_out(user)
    reading = Rereading(project, user)
    config, keys = await reading.begin(), Keys()
    await clones.require(project, stores.chosen(project, config), user)
    await _require_branch(user, config)
    await preflight(project, config, keys)
    require_told(project, config)

    async def again() -> Config:
        fresh = await reading.again()
        await _require_gates(desk, fresh)
        require_told(project, fresh)
        return fresh

    live = LiveConfig(
        config,
        (project.global_config, project.config),
        again,
        setting=user.branch_out,
        is_settled=lambda: not user.is_at_work(),
    )
    async with contextlib.AsyncExitStack() as open_now:
        desk = await _furnish(open_now, project, config, keys, user, git, watch)
        await _record_reversal(desk)
        await _begin_session(desk)
        await _require_gates(desk, config)
        await forewarnings.tell(desk)
        yield desk, live


async def _record_reversal(desk: Desk) -> None:
    """A revert that was killed once it had landed: what it took away must not count as done."""
    now = desk.clock.now()
    for found in await reversals.finish(desk.project, desk.database, desk.workshop, desk.rules, now):
        desk.announce(events.WARNING, found.unit_id, detail=found.told, log=True)


async def _require_gates(desk: Desk, config: Config) -> None:
    """Raise InvalidConfig when a configured gate could not be run for work on the session's branch."""
    session = sessions.current(desk.database.read)
    branch = str(session["integration_branch"] or "") if session else ""
    # A branch that is gone holds what is for it, when its time comes.
    with contextlib.suppress(BranchGone):
        await places.located(desk, branch, gates_of(config))


async def _furnish(
    open_now: contextlib.AsyncExitStack,
    project: Project,
    config: Config,
    keys: Keys,
    user: UserRepository,
    git: Git,
    watch: Watcher,
) -> Desk:
    """The desk; what it holds open is closed with the stack, the last opened first."""
    log = log_of(project, config)
    asyncio.get_running_loop().set_exception_handler(complaints(log))
    open_now.callback(log.flush)
    bus = Bus(log.error)
    bus.subscribe(gatherer(log), *LOGGED)
    bus.subscribe(watch)
    database = Database(stores.chosen(project, config), bus.publish)
    stores.remember(project, database.place)
    open_now.callback(database.close)
    tracer = Tracer(project.trace)
    open_now.callback(tracer.close)
    bus.subscribe(spans(tracer), *TRACED)
    memory = open_memory(project, config)
    if memory is not None:
        open_now.push_async_callback(memory.aclose)
    bank = await bank_of(project, user) if memory is not None else ""
    catalog = Catalog(
        project.dot / "playbooks",
        lambda provider, model, settings: open_hosted(keys, provider, model, settings),
        lambda provider, model: settings_of(desk.config, provider, model),
    )
    open_now.push_async_callback(catalog.aclose)
    clock = SystemClock()
    owned = await OwnedRepository.open(project.repository, user, git)
    desk = Desk(
        project=project,
        config=config,
        rules=rules_of(config, bank=bank),
        database=database,
        bus=bus,
        log=log,
        tracer=tracer,
        clock=clock,
        prompts=Prompts(),
        workshop=Workshop(project, database, user, owned, clock, config.harness.worktree_mode),
        catalog=catalog,
        knowledge=Knowledge(
            memory, bank, lambda: desk.config.memory, database, bus=bus, log=log, tracer=tracer, clock=clock
        ),
        hooks=HookRunner(project.root, dict(os.environ), log, tracer, config.harness.hooks),
        sandbox=sandbox_of(project, config, "profile"),
        gate_sandbox=sandbox_of(project, config, "gate_profile"),
        station=project.key if isinstance(database.place, Url) else "",
        environment=search_path.users_environment(project.root),
    )
    return desk


async def _require_branch(user: UserRepository, config: Config) -> None:
    head = await user.head()
    if head.commit is None:
        raise EmptyRepository("the repository has no commit yet", hint="git commit something first")
    if head.branch is None and not config.harness.integration_branch:
        raise DetachedHead(
            "HEAD is detached", hint="git switch a branch, or set [harness] integration_branch"
        )


async def _begin_session(desk: Desk) -> None:
    now = desk.clock.now()
    head = await desk.workshop.user.head()
    branch = desk.config.harness.integration_branch or head.branch

    def write(tx: Tx) -> None:
        periods.expire(tx, now)
        session_id = sessions.ensure(tx, now, branch)
        if desk.config.harness.integration_branch:
            sessions.set_branch(tx, session_id, desk.config.harness.integration_branch, now)
        session = sessions.current(tx)
        if session is not None and session["status"] != "paused":
            sessions.set_status(tx, session_id, "running", now)

    await desk.database.write(write)


def sandbox_of(project: Project, config: Config, key: str) -> Sandbox:
    """The sandbox by one key of the configuration: `profile` for agents, `gate_profile` for gates."""
    profile = getattr(config.sandbox, key)
    hidden = [project.dot, project.home]
    return sandbox.choose(profile, prefer=config.sandbox.prefer, hidden=[p for p in hidden if p.exists()])


def _apply(desk: Desk, config: Config) -> None:
    """A reloaded configuration takes effect for what is dispatched from now on."""
    try:
        sandboxes = [sandbox_of(desk.project, config, key) for key in ("profile", "gate_profile")]
    except (InvalidConfig, SandboxUnavailable) as error:
        problems = error.problems if isinstance(error, InvalidConfig) else (error.message,)
        desk.log.warning("reloaded configuration cannot be used, the old stays", problems="; ".join(problems))
        desk.announce(events.WARNING, detail=f"configuration not reloaded: {problems[0]}")
        return
    desk.sandbox, desk.gate_sandbox = sandboxes
    desk.config = config
    desk.rules = rules_of(config, desk.rules.mode, desk.rules.bank)
    desk.hooks.hooks = config.harness.hooks
