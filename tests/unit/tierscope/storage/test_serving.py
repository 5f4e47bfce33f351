"""What a collector answers over its socket is what its reader says, whoever else asks what."""

from __future__ import annotations

import inspect
import socket as sockets
import subprocess
import sys
import threading

import msgspec
import numpy as np
import pytest
import zmq

from tests.ledgers import START, Ledger
from tierscope.domain.deployment import Deployment
from tierscope.domain.errors import BadInput, StoreUnusable
from tierscope.domain.window import TimeSpan
from tierscope.domain.wiring import Wiring
from tierscope.storage.messages import CALLS, ORDERS, decode_answer, decode_question, encode_question
from tierscope.storage.reader import Reader
from tierscope.storage.serving import MOST_PATH_BYTES, RemoteReader, StoreServer, socket_path
from tierscope.storage.store import Store
from tierscope.storage.upkeep import RemoteUpkeep, Upkeep

ALL_TIME = TimeSpan(0.0, 1e11)

QUESTIONS = {
    "endpoints": (),
    "history": ("prod", "chat"),
    "totals": ("prod", "chat", ALL_TIME),
    "engine_totals": ("prod", "chat", ALL_TIME),
    "window": ("prod", "chat", ALL_TIME),
    "samples": ("prod", "chat", ALL_TIME),
    "coverage": (ALL_TIME,),
    "evidence": ("prod", "chat", ALL_TIME),
    "deployments": ("prod", "chat", ALL_TIME),
    "latest_recommendation": ("prod", "chat"),
    "recommendation_history": ("prod", "chat", ALL_TIME),
    "row_counts": (),
}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A reader of a small store."""
    with Store.open(tmp_path_factory.mktemp("served") / "store", clock=lambda: START) as store:
        store.append(Ledger().batches(60))
        store.record_deployment(Deployment("prod", "chat", "model", 2, wiring=Wiring(hash_seeds=("0",))))
        store.save_recommendation(
            "prod", "chat", status="no_change", document=b'{"status": "no_change"}', at_unix_seconds=START
        )
        yield store.reader()


@pytest.fixture
def server(reader, tmp_path):
    server = StoreServer(reader, tmp_path / "s.sock")
    yield server
    server.close()


@pytest.fixture
def remote(server):
    remote = RemoteReader(server.path)
    yield remote
    remote.close()


def same(left, right) -> bool:
    """Whether two answers are equal, arrays by value and type."""
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right, equal_nan=left.dtype.kind == "f")
    if hasattr(left, "__dataclass_fields__"):
        return type(left) is type(right) and all(
            same(getattr(left, name), getattr(right, name)) for name in left.__dataclass_fields__
        )
    return left == right


def test_reading_from_afar_needs_no_database(repository):
    """A process that only asks a collector runs without DuckDB."""
    program = (
        "import sys, tierscope.storage.serving, tierscope.storage.upkeep; sys.exit('duckdb' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], cwd=repository, check=False).returncode == 0


def test_every_question_of_a_reader_can_be_asked():
    """A method added to `Reader` is a row in the table of calls, or this fails."""
    methods = {name for name, _ in inspect.getmembers(Reader, inspect.isfunction) if not name.startswith("_")}

    assert set(CALLS) == set(QUESTIONS) == methods


def test_every_order_of_upkeep_can_be_given():
    """A method added to `Upkeep` is a row in the table of orders, or this fails."""
    methods = {name for name, _ in inspect.getmembers(Upkeep, inspect.isfunction) if not name.startswith("_")}

    assert set(ORDERS) == methods


def test_who_only_answers_takes_no_orders(server, tmp_path):
    """A process that does not own the store says who does."""
    upkeep = RemoteUpkeep(server.path)

    with pytest.raises(StoreUnusable, match="only answers questions"):
        upkeep.backup(str(tmp_path / "copy"))
    upkeep.close()


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_is_the_readers_own(reader, remote, question):
    """Numbers, times, arrays and documents arrive unchanged."""
    here = getattr(reader, question)(*QUESTIONS[question])
    there = getattr(remote, question)(*QUESTIONS[question])

    assert here is not None
    assert same(here, there)


def test_arrays_belong_to_whoever_asked(remote):
    """The asker may write into an answer, as into any array of its own."""
    window = remote.window("prod", "chat", ALL_TIME)

    window.block_hashes[:] = 0

    assert not window.block_hashes.any()


def test_several_clients_ask_at_a_time(server, reader):
    """Answers go to who asked."""
    expected = {
        (start, end): reader.totals("prod", "chat", TimeSpan(START + start, START + end)).tokens
        for start in range(0, 1200, 300)
        for end in (1500, 3000)
    }
    found = {}

    def ask(bounds) -> None:
        remote = RemoteReader(server.path)
        for _ in range(5):
            found[bounds] = remote.totals(
                "prod", "chat", TimeSpan(START + bounds[0], START + bounds[1])
            ).tokens
        remote.close()

    clients = [threading.Thread(target=ask, args=(bounds,)) for bounds in expected]
    for client in clients:
        client.start()
    for client in clients:
        client.join()

    assert found == expected


def test_errors_of_the_reader_reach_the_asker(tmp_path):
    """What, where and fix are those of the collector's side, and of the same kind."""

    class Closed:
        def row_counts(self):
            raise StoreUnusable("the store is closed", where="there", fix="open it")

        def endpoints(self):
            raise RuntimeError("a mistake of ours")

    server = StoreServer(Closed(), tmp_path / "s.sock")
    remote = RemoteReader(server.path)

    with pytest.raises(StoreUnusable, match="the store is closed") as told:
        remote.row_counts()
    with pytest.raises(StoreUnusable, match="a mistake of ours"):
        remote.endpoints()

    assert (told.value.where, told.value.fix) == ("there", "open it")
    remote.close()
    server.close()


@pytest.mark.parametrize(
    "garbage",
    [
        [b""],
        [b"\xc1"],
        [b"GET / HTTP/1.1"],
        [msgspec.msgpack.encode([1, "no_such_question", []])],
        [msgspec.msgpack.encode([1, "__init__", []])],
        [msgspec.msgpack.encode([1, "totals", ["prod"]])],
        [msgspec.msgpack.encode([1, "totals", ["prod", "chat", {"start_unix_seconds": "then"}]])],
        [b"a", b"b", b"c"],
        [b"x" * 1_000_000],
    ],
    ids=range(9),
)
def test_garbage_is_answered_with_an_error_and_hurts_no_one(server, remote, garbage):
    """What is no question is told so; the next question is answered."""
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.linger = 0
        socket.connect(f"ipc://{server.path}")
        socket.send_multipart(garbage)
        answer = socket.recv_multipart()

        with pytest.raises(BadInput):
            decode_answer("totals", answer, "here")
    assert remote.endpoints() == (("prod", "chat"),)


def test_bytes_that_are_not_even_frames_hurt_no_one(server, remote):
    """A client that does not speak the protocol, or asks and leaves, is forgotten."""
    with sockets.socket(sockets.AF_UNIX) as stranger:
        stranger.connect(str(server.path))
        stranger.sendall(b"\xff" * 300)
    with zmq.Context() as context, context.socket(zmq.DEALER) as rude:
        rude.linger = 100
        rude.connect(f"ipc://{server.path}")
        rude.send_multipart([b"no delimiter", b"at all"])
        rude.send_multipart([b"", encode_question("window", QUESTIONS["window"])])

    assert remote.endpoints() == (("prod", "chat"),)


def test_a_question_of_an_unknown_kind_names_those_known():
    """The error lists what can be asked."""
    with pytest.raises(BadInput, match="'nonsense'") as told:
        decode_question(encode_question("nonsense", ()))

    assert "latest_recommendation" in told.value.fix


def test_without_a_collector_the_error_says_so(tmp_path):
    """No socket, no waiting."""
    remote = RemoteReader(tmp_path / "nobody.sock")

    with pytest.raises(StoreUnusable, match="no collector listens"):
        remote.endpoints()
    remote.close()


def test_a_collector_that_died_does_not_answer(tmp_path):
    """A socket that was left behind is asked for a limited time."""
    path = tmp_path / "dead.sock"
    with sockets.socket(sockets.AF_UNIX) as dead:
        dead.bind(str(path))
    remote = RemoteReader(path, timeout_seconds=0.05)

    with pytest.raises(StoreUnusable, match="does not answer"):
        remote.endpoints()
    remote.close()


def test_a_new_server_takes_the_place_of_a_dead_one(reader, tmp_path):
    """A socket that a killed collector left is replaced; a closed server leaves none."""
    path = tmp_path / "s.sock"
    with sockets.socket(sockets.AF_UNIX) as dead:
        dead.bind(str(path))

    server = StoreServer(reader, path)
    remote = RemoteReader(path)
    assert remote.endpoints() == (("prod", "chat"),)
    remote.close()
    server.close()
    server.close()

    assert not path.exists()


def test_a_file_is_never_replaced_by_a_socket(reader, tmp_path):
    """A socket_path that names the store by mistake does not cost the store."""
    path = tmp_path / "store.duckdb"
    path.write_bytes(b"years of work")

    with pytest.raises(StoreUnusable, match="file of another kind") as told:
        StoreServer(reader, path)

    assert path.read_bytes() == b"years of work"
    assert "socket_path" in told.value.fix


def test_a_socket_that_someone_listens_on_is_not_taken_away(reader, server, remote):
    """Two collectors with one socket_path: the second is refused, the first goes on."""
    with pytest.raises(StoreUnusable, match="another process does"):
        StoreServer(reader, server.path)

    assert remote.endpoints() == (("prod", "chat"),)


def test_a_socket_in_a_missing_folder_is_refused(reader, tmp_path):
    """The error names the path and the setting."""
    with pytest.raises(StoreUnusable, match="cannot listen") as told:
        StoreServer(reader, tmp_path / "missing" / "s.sock")

    assert "socket_path" in told.value.fix


def test_the_socket_is_private(server):
    """Only the user that runs the collector may ask."""
    assert server.path.stat().st_mode & 0o777 == 0o600


def test_the_socket_lies_beside_the_store():
    """Both processes find it from the store's path alone."""
    assert str(socket_path("/data/tierscope.duckdb")) == "/data/tierscope.duckdb.sock"
    assert str(socket_path("/data/tierscope.duckdb", "/run/t.sock")) == "/run/t.sock"


def test_a_path_too_long_for_a_socket_has_a_stand_in(reader):
    """The system allows few bytes; both processes fall back on the same short path."""
    deep = f"/{'d' * MOST_PATH_BYTES}/store.duckdb"

    path = socket_path(deep)

    assert len(bytes(path)) <= MOST_PATH_BYTES
    assert path == socket_path(deep)
    assert path != socket_path(deep + "2")
    server = StoreServer(reader, path)
    server.close()


def test_a_chosen_path_too_long_is_refused():
    """What someone chose is not silently replaced."""
    with pytest.raises(StoreUnusable, match=f"allows {MOST_PATH_BYTES}"):
        socket_path("/data/s", f"/{'d' * 200}/x.sock")
