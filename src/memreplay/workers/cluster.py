"""Items on a Dask cluster: one that runs, on Slurm, Kubernetes or a cloud."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import re
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic, sleep, time
from typing import Any

from memreplay.errors import MemreplayError, MissingExtraError, UsageError
from memreplay.io.version import __version__
from memreplay.workers.running import (
    Done,
    R,
    T,
    attempt,
    heard,
    in_a_line,
    packed,
    packed_item,
    packed_work,
)

NEEDS_DASK = "a cluster needs Dask"

_COUNT_SECONDS = 5.0  # how often it is asked how many workers there are
_SETTLED_SECONDS = 1.0  # from a worker's first item to when its nanny has surely noted its start
_NEVER_BEGAN = "unfit"  # beside the statuses of an item: its worker cannot do any

# Loggers of Dask that have handlers of their own, or none.
_LOGGERS = (
    *("distributed", "distributed.client", "distributed.gc"),
    *("bokeh", "tornado", "tornado.application", "asyncio"),
)


class DaskCluster:
    """A Dask cluster.

    Its workers need memreplay, of this version; its scheduler needs none. An item whose worker
    dies is done again by another, as often as the scheduler's `allowed-failures` says. Where those
    die as well, it is done once more when all others are done, with no other of them on the
    cluster: then it is known to be at fault, and `died`.

    So many items are at the cluster at once as keep all its threads busy, and no more: the
    scheduler's memory does not grow with their number. Workers may come and go.

    Parameters
    ----------
    address : str, optional
        The scheduler's address (`tcp://…`, `tls://…`), or the file that it wrote (`….json`).
    client : distributed.Client, optional
        A client that is connected, instead. It stays open.
    connect_seconds : float
        How long to wait for the scheduler.
    patience_seconds : float
        How long to wait for others when all workers have gone. For the first there is no limit: a
        queue may be long.

    Attributes
    ----------
    warning : str
        How versions differ from here to there, in a line; empty if they do not.

    Raises
    ------
    MissingExtraError
        Dask is not installed.
    MemreplayError
        No scheduler answers there.
    UsageError
        Neither an address nor a client is given, or both are.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        client: Any = None,
        connect_seconds: float = 30,
        patience_seconds: float = 300,
    ) -> None:
        if (address is None) == (client is None):
            raise UsageError("a cluster needs the address of its scheduler, or a client")
        self.warning = ""
        self.patience_seconds = patience_seconds
        self._last_seen: float | None = None  # when there were workers
        self._threads = 0
        self._fetch_seconds = 30.0
        self._counted = -_COUNT_SECONDS
        self._ours = ExitStack()
        if address is not None:
            address = _address(address)
            try:
                client = self._connected(address, connect_seconds)
            except BaseException:
                self._ours.close()
                raise
        self._client = client
        self._address = address or client.scheduler.address

    @classmethod
    def local(cls, workers: int) -> DaskCluster:
        """A cluster of processes of this machine, with a scheduler in this one; for tests."""
        distributed = _distributed()
        import dask

        ours = ExitStack()
        ours.enter_context(_quiet())
        # An item whose worker dies is tried once more, alone, as in a pool; and nobody waits for a
        # result that a dead worker had: all are of this machine, and answer at once or never.
        settings = {
            "distributed.scheduler.allowed-failures": 0,
            "distributed.comm.timeouts.connect": "2s",
            # 15 s after a worker has died, LocalCluster ends the one that came for it where that is
            # just being replaced as well.
            "distributed.deploy.lost-worker-timeout": "1000h",
        }
        ours.enter_context(dask.config.set(settings))
        try:
            cluster = distributed.LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
            )
        except BaseException:
            ours.close()
            raise
        ours.callback(cluster.close)
        try:
            made = cls(cluster.scheduler_address)
        except BaseException:
            ours.close()
            raise
        # Its client closes before the cluster does.
        made._fetch_seconds = 3.0
        ours.callback(made._ours.pop_all().close)
        made._ours = ours
        return made

    def __enter__(self) -> DaskCluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def workers(self) -> int:
        """How many items it works on at once: the threads of its workers. 0 while there are none.

        Raises MemreplayError where the scheduler is gone.
        """
        if self._client.status != "running":  # Dask would try for long to connect again
            raise self._gone(None)
        try:
            return sum(self._client.nthreads().values())
        except Exception as error:
            raise self._gone(error) from None

    @property
    def dashboard_link(self) -> str:
        """Where Dask shows what it does; empty where it does not."""
        try:
            return self._client.dashboard_link or ""
        except Exception:  # KeyError without a dashboard; whatever a closed client raises
            return ""

    def run(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[Done[R]]:
        """One `Done` an item, in the order in which they end. Functions of `__main__` go, too.

        Raises UsageError for a function that cannot be sent, MemreplayError where workers cannot
        load it or have another memreplay, and where the scheduler is gone.
        """
        import cloudpickle

        orders = packed_work(work, cloudpickle.dumps)
        died: list[int] = []
        for done in self._each(orders, items, range(len(items))):
            if done.status == "died":
                died.append(done.index)
            else:
                yield done
        for index in died:
            yield from self._each(orders, items, [index])

    def close(self) -> None:
        """Leave the cluster; what was started here ends."""
        self._ours.close()

    def _each(
        self, orders: bytes, items: Sequence[Any], indices: Sequence[int]
    ) -> Iterator[Done[Any]]:
        """These items; each until it is done, or the scheduler gives it up."""
        # Its first part is how the dashboard calls them; the second tells runs apart.
        name = f"memreplay-{uuid.uuid4().hex}"
        left = deque(indices)
        running: dict[Any, int] = {}
        ended = _distributed().as_completed(loop=self._client.loop)
        sent = 0
        lost: set[int] = set()
        try:
            while left or running:
                self._count()
                # More than there are threads, or a cluster that grows on demand would not.
                room = max(2 * self._threads, self._threads + 8)
                while left and len(running) < room:
                    index = left.popleft()
                    item = packed_item(index, items[index])
                    if isinstance(item, Done):
                        yield item
                        continue
                    future = self._submit(_Call(orders, item), f"{name}-{sent}")
                    sent += 1
                    running[future] = index
                    ended.add(future)
                if not running:
                    continue
                for future in self._batch(ended):
                    index = running.pop(future)
                    done = self._done(index, future)
                    future.release()
                    if done is not None:
                        yield done
                    elif index in lost:
                        yield Done(index, None, "failed", "its result cannot be fetched")
                    else:
                        lost.add(index)
                        left.append(index)
        finally:
            for future in running:
                with suppress(Exception):
                    future.release()  # nobody wants it: it is cancelled

    def _batch(self, ended: Any) -> list[Any]:
        """What has ended, once anything has. Dask would wait for workers for ever."""
        pause = 0.001
        while not ended.has_ready():
            sleep(pause)
            pause = min(1.5 * pause, 0.02)
            self._count()
        batch: list[Any] = ended.next_batch(block=False)
        return batch

    def _count(self) -> None:
        """See now and then who is there. Raises MemreplayError where nobody has been for long."""
        now = monotonic()
        if now - self._counted < _COUNT_SECONDS:
            return
        self._counted = now
        self._threads = self.workers
        if self._threads:
            self._last_seen = now
        elif self._last_seen is not None and now - self._last_seen > self.patience_seconds:
            raise MemreplayError(
                f"the Dask cluster at {self._address} has no workers any more,"
                f" for {now - self._last_seen:.0f} s"
            )

    def _submit(self, call: _Call, key: str) -> Any:
        """To be called by a function that Python itself has: the scheduler loads it as well."""
        try:
            return self._client.submit(pickle.loads, packed(call), key=key, pure=False)
        except Exception as error:
            raise self._gone(error) from None

    def _done(self, index: int, future: Any) -> Done[Any] | None:
        """What became of an item; None where its result is nowhere to be had.

        A result is with the worker until it is fetched. If that dies first, Dask does the item
        again, and may wait for the lost result for ever: so no wait is long, and there are two.
        """
        from distributed.scheduler import KilledWorker

        error: BaseException | None = None
        for _ in range(2):
            if future.status == "cancelled":
                break
            try:
                done = heard(index, future.result(timeout=self._fetch_seconds))
            except (TimeoutError, asyncio.TimeoutError, OSError):
                continue
            except (Exception, asyncio.CancelledError) as raised:
                error = raised
                break
            if done.status == _NEVER_BEGAN:
                raise MemreplayError(f"a worker of the cluster cannot begin: {done.error}")
            return done
        if future.status == "cancelled":
            raise self._gone(error)
        if error is None:
            return None
        if isinstance(error, KilledWorker):
            times = error.allowed_failures + 1
            said = f"{times} workers" if times > 1 else "its worker"
            last = getattr(error.last_worker, "address", error.last_worker)
            return Done(index, None, "died", f"{said} ended, twice; the last at {last}")
        if isinstance(error, ImportError) and (error.name or "").startswith("memreplay"):
            raise MemreplayError(
                f"a worker of the cluster has no memreplay {__version__}: {in_a_line(error)}"
            )
        return Done(index, None, "failed", in_a_line(error))

    def _gone(self, error: object) -> MemreplayError:
        why = in_a_line(error) if isinstance(error, BaseException) else "it does not answer"
        return MemreplayError(f"the Dask scheduler at {self._address} is gone: {why}")

    def _connected(self, address: str, connect_seconds: float) -> Any:
        self._ours.enter_context(_quiet())
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                client = _distributed().Client(
                    address, timeout=connect_seconds, set_as_default=False, name="memreplay"
                )
        except Exception as error:
            raise MemreplayError(
                f"no Dask scheduler answers at {address}: {in_a_line(error)}"
            ) from None
        self._ours.callback(_closed, client)
        self.warning = _one_line([str(one.message) for one in said])
        return client


class _Call:
    """An item to be done, which it is when this is unpickled: the result is what comes out.

    The scheduler unpickles the functions of all tasks. With this, the task's function is pickle's,
    and what the scheduler has no modules for is bytes to it.
    """

    def __init__(self, orders: bytes, item: bytes) -> None:
        self._orders = orders
        self._item = item

    def __reduce__(self) -> tuple[Callable[..., bytes], tuple[str, bytes, bytes]]:
        return called, (__version__, self._orders, self._item)


def called(version: str, orders: bytes, item: bytes) -> bytes:
    """What a worker does: answers as `attempt` does, or says why it cannot begin."""
    if version != __version__:
        why = f"it has memreplay {__version__}, and {version} asks"
        return packed((_NEVER_BEGAN, None, why))
    _settle()
    try:
        work = pickle.loads(orders)
    except Exception as error:
        return packed((_NEVER_BEGAN, None, in_a_line(error)))
    return attempt(work, item)


_settled = False


def _settle() -> None:
    """Wait a moment, before the first item of a worker that has just started: a nanny whose worker
    dies before it has noted that it runs gives up, and starts no other."""
    global _settled  # noqa: PLW0603 - of this process
    if _settled:
        return
    _settled = True
    with suppress(Exception):
        import psutil  # as Dask does

        if time() - psutil.Process().create_time() < 10:
            sleep(_SETTLED_SECONDS)


def _distributed() -> Any:
    """Dask's module, which takes half a second to load. Raises MissingExtraError."""
    try:
        import distributed
    except ImportError:
        raise MissingExtraError(NEEDS_DASK, "fleet") from None
    return distributed


def _address(said: str) -> str:
    """A scheduler's address, from the file that has it if this is one. Dask would wait for ever for
    a file that is not there, and show where it was when an address is none."""
    _distributed()
    from distributed.comm.addressing import get_address_host_port

    address = said
    if said.endswith(".json"):
        try:
            with open(said, encoding="utf-8") as file:
                address = json.load(file)["address"]
        except OSError as error:
            raise UsageError(f"{said}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise UsageError(f"{said} is no file of a Dask scheduler") from None
    try:
        get_address_host_port(address)
    except Exception as error:
        like = "one is like tcp://10.0.0.1:8786"
        raise UsageError(f"{said!r} is no address of a scheduler: {error}; {like}") from None
    return address


def _closed(client: Any) -> None:
    with suppress(Exception):
        client.close(timeout=5)


def _one_line(said: list[str]) -> str:
    """Of the table of versions that Dask makes, which packages it has."""
    table = next((text for text in said if "ismatched versions" in text), None)
    if table is None:
        return ""
    packages = [one for one in re.findall(r"^\| (\S+)", table, re.MULTILINE) if one != "Package"]
    named = ", ".join(packages) or "of some packages"
    return f"versions differ between here and the cluster: {named}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing of what Dask and tornado log reaches stderr: what matters is said by whoever asks."""

    def nothing(_: logging.LogRecord) -> bool:
        return False

    taken: list[logging.Filterer] = []
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        taken += logger.handlers or [logger]
    for one in taken:
        one.addFilter(nothing)
    try:
        yield
    finally:
        for one in taken:
            one.removeFilter(nothing)
