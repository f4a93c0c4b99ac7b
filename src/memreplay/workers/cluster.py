"""Run items on a Dask cluster, existing or on Slurm, Kubernetes or a cloud."""

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

_COUNT_SECONDS = 5.0  # how often to count workers
# after this long, a new worker's nanny has noted that the worker started
_SETTLED_SECONDS = 1.0
_NEVER_BEGAN = "unfit"  # additional status: the worker can't run any items

# Dask's loggers, whether or not they have handlers.
_LOGGERS = (
    *("distributed", "distributed.client", "distributed.gc"),
    *("bokeh", "tornado", "tornado.application", "asyncio"),
)


class DaskCluster:
    """A Dask cluster.

    Workers need this version of memreplay; the scheduler doesn't need it. If a worker dies, another
    one retries its item, as often as the scheduler's `allowed-failures` allows. If these workers
    die, too, the item is tried once more, by itself, after all others. If that fails as well, its
    status is `died`.

    Only enough items are submitted to keep all threads busy, so the scheduler's memory doesn't grow
    with the number of items. Workers may come and go.

    Parameters
    ----------
    address : str, optional
        The scheduler's address (`tcp://…`, `tls://…`) or its scheduler file (`….json`).
    client : distributed.Client, optional
        A connected client to use instead. It stays open.
    connect_seconds : float
        How long to wait for the scheduler.
    patience_seconds : float
        How long to wait when all workers have left. Waiting for the first worker has no limit,
        because queues can be long.

    Attributes
    ----------
    warning : str
        Differences between the versions on client and cluster, in one line, or "".

    Raises
    ------
    MissingExtraError
        Dask is not installed.
    MemreplayError
        The scheduler doesn't answer.
    UsageError
        Not exactly one of address and client is given.
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
            raise UsageError("a cluster needs a scheduler address or a client")
        self.warning = ""
        self.patience_seconds = patience_seconds
        self._last_seen: float | None = None  # time when workers were last seen
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
        """Start a local cluster with its scheduler in this process. For tests."""
        distributed = _distributed()
        import dask

        ours = ExitStack()
        ours.enter_context(_quiet())
        # As in a pool, if a worker dies, its item is retried once, with no other item running.
        # Don't wait for a dead worker's results, because local workers answer immediately or never.
        settings = {
            "distributed.scheduler.allowed-failures": 0,
            "distributed.comm.timeouts.connect": "2s",
            # Otherwise LocalCluster may stop a dead worker's replacement after 15 s.
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
        # the client closes before its cluster does
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
        """Number of worker threads; 0 if there are no workers.

        Raises MemreplayError if the scheduler is lost.
        """
        # Otherwise Dask would keep trying to reconnect for a long time.
        if self._client.status != "running":
            raise self._gone(None)
        try:
            return sum(self._client.nthreads().values())
        except Exception as error:
            raise self._gone(error) from None

    @property
    def dashboard_link(self) -> str:
        """URL of Dask's dashboard, or ""."""
        try:
            return self._client.dashboard_link or ""
        except Exception:  # KeyError if there's no dashboard; a closed client can raise anything
            return ""

    def run(self, work: Callable[[T], R], items: Sequence[T]) -> Iterator[Done[R]]:
        """Yield one `Done` per item as the items finish. Functions of `__main__` work, too.

        Raises UsageError for a function that can't be pickled. Raises MemreplayError if workers
        can't load the function or have another version of memreplay, and if the scheduler is lost.
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
        """Disconnect, and stop a cluster started here."""
        self._ours.close()

    def _each(
        self, orders: bytes, items: Sequence[Any], indices: Sequence[int]
    ) -> Iterator[Done[Any]]:
        """Run these items until each one is done or the scheduler has given up on it."""
        # The dashboard shows the first part of a key. The second part distinguishes runs.
        name = f"memreplay-{uuid.uuid4().hex}"
        left = deque(indices)
        running: dict[Any, int] = {}
        ended = _distributed().as_completed(loop=self._client.loop)
        sent = 0
        lost: set[int] = set()
        try:
            while left or running:
                self._count()
                # More items than threads, so that an adaptive cluster scales up.
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
                        yield Done(index, None, "failed", "its result can't be fetched")
                    else:
                        lost.add(index)
                        left.append(index)
        finally:
            for future in running:
                with suppress(Exception):
                    future.release()  # nobody needs the result any more, so cancel the item

    def _batch(self, ended: Any) -> list[Any]:
        """Wait until something has finished, and return it. Without workers, Dask itself would wait
        forever.
        """
        pause = 0.001
        while not ended.has_ready():
            sleep(pause)
            pause = min(1.5 * pause, 0.02)
            self._count()
        batch: list[Any] = ended.next_batch(block=False)
        return batch

    def _count(self) -> None:
        """Count the workers from time to time. Raises MemreplayError if there haven't been any for
        too long.
        """
        now = monotonic()
        if now - self._counted < _COUNT_SECONDS:
            return
        self._counted = now
        self._threads = self.workers
        if self._threads:
            self._last_seen = now
        elif self._last_seen is not None and now - self._last_seen > self.patience_seconds:
            raise MemreplayError(
                f"the Dask cluster at {self._address} has had no workers for"
                f" {now - self._last_seen:.0f} s"
            )

    def _submit(self, call: _Call, key: str) -> Any:
        """Submit through a builtin, because the scheduler also unpickles the function."""
        try:
            return self._client.submit(pickle.loads, packed(call), key=key, pure=False)
        except Exception as error:
            raise self._gone(error) from None

    def _done(self, index: int, future: Any) -> Done[Any] | None:
        """Return an item's outcome; None if its result is lost.

        A worker holds a result until it's fetched. If the worker dies first, Dask repeats the item
        but may wait forever for the lost result. So waiting is limited, and is tried twice.
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
                raise MemreplayError(f"a cluster worker can't start: {done.error}")
            return done
        if future.status == "cancelled":
            raise self._gone(error)
        if error is None:
            return None
        if isinstance(error, KilledWorker):
            times = error.allowed_failures + 1
            said = f"{times} workers" if times > 1 else "its worker"
            last = getattr(error.last_worker, "address", error.last_worker)
            return Done(index, None, "died", f"{said} ended twice; the second at {last}")
        if isinstance(error, ImportError) and (error.name or "").startswith("memreplay"):
            raise MemreplayError(
                f"a cluster worker doesn't have memreplay {__version__}: {in_a_line(error)}"
            )
        return Done(index, None, "failed", in_a_line(error))

    def _gone(self, error: object) -> MemreplayError:
        why = in_a_line(error) if isinstance(error, BaseException) else "it doesn't answer"
        return MemreplayError(f"lost the Dask scheduler at {self._address}: {why}")

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
    """An item that runs when it's unpickled; the result takes its place.

    The scheduler unpickles all tasks' functions. This way, it only sees bytes and doesn't need our
    modules.
    """

    def __init__(self, orders: bytes, item: bytes) -> None:
        self._orders = orders
        self._item = item

    def __reduce__(self) -> tuple[Callable[..., bytes], tuple[str, bytes, bytes]]:
        return called, (__version__, self._orders, self._item)


def called(version: str, orders: bytes, item: bytes) -> bytes:
    """Run an item on a worker. Returns an answer like `attempt`'s, or the reason why the item can't
    start.
    """
    if version != __version__:
        why = f"it has memreplay {__version__}, but this is {version}"
        return packed((_NEVER_BEGAN, None, why))
    _settle()
    try:
        work = pickle.loads(orders)
    except Exception as error:
        return packed((_NEVER_BEGAN, None, in_a_line(error)))
    return attempt(work, item)


_settled = False


def _settle() -> None:
    """Wait before a new worker's first item.

    If a worker dies before its nanny has noted its start, the nanny doesn't start another.
    """
    global _settled  # noqa: PLW0603 - of this process
    if _settled:
        return
    _settled = True
    with suppress(Exception):
        import psutil  # Dask itself finds the worker this way

        if time() - psutil.Process().create_time() < 10:
            sleep(_SETTLED_SECONDS)


def _distributed() -> Any:
    """Import Dask, which takes half a second. Raises MissingExtraError."""
    try:
        import distributed
    except ImportError:
        raise MissingExtraError(NEEDS_DASK, "fleet") from None
    return distributed


def _address(said: str) -> str:
    """Return a scheduler's address; if a file's name is given, read it from the file.

    Dask would wait forever for a missing file, and print a traceback for an invalid address.
    """
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
            raise UsageError(f"{said} isn't a Dask scheduler file") from None
    try:
        get_address_host_port(address)
    except Exception as error:
        like = "give one like tcp://10.0.0.1:8786"
        raise UsageError(f"{said!r} isn't a scheduler address: {error}; {like}") from None
    return address


def _closed(client: Any) -> None:
    with suppress(Exception):
        client.close(timeout=5)


def _one_line(said: list[str]) -> str:
    """Return, in one line, the packages listed in Dask's table of version mismatches."""
    table = next((text for text in said if "ismatched versions" in text), None)
    if table is None:
        return ""
    packages = [one for one in re.findall(r"^\| (\S+)", table, re.MULTILINE) if one != "Package"]
    named = ", ".join(packages) or "of some packages"
    return f"package versions differ between this machine and the cluster: {named}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the logs of Dask and tornado off stderr; the caller reports errors."""

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
