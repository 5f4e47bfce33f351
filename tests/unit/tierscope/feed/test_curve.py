"""Encrypted streams over real sockets: who may read, what a stranger gets, and keys exchanged under way."""

from __future__ import annotations

from contextlib import closing

import pytest
import zmq

from tests.exporting import await_true
from tests.feed_keys import Keys
from tests.ports import unused_endpoint
from tests.streaming import numbered, receive_count
from tierscope.domain.errors import BadSettings
from tierscope.feed.curve import read_key, read_names
from tierscope.feed.stream_publisher import StreamPublisher
from tierscope.feed.stream_subscriber import StreamSubscriber

ANY = "tcp://127.0.0.1:*"

QUIET_SECONDS = 0.5
"""How long a reader that must hear nothing is listened to; its peers hear everything within milliseconds."""


@pytest.fixture
def keys(tmp_path):
    """Keys of a publisher that nobody may read yet."""
    return Keys(tmp_path)


@pytest.fixture
def publisher(keys):
    """An encrypted stream."""
    with closing(StreamPublisher(ANY, ANY, buffer_bytes=1 << 20, lock=keys.lock())) as stream:
        yield stream


def reader(publisher, key):
    """A reader that asks for everything; its patience with replays is short."""
    return closing(
        StreamSubscriber(
            publisher.endpoint,
            publisher.replay_endpoint,
            source="test stream",
            key=key,
            replay_timeout_seconds=0.2,
        )
    )


def live_reader(endpoint, key):
    """A reader that nobody replays anything for."""
    return closing(StreamSubscriber(endpoint, None, source="live stream", key=key))


def await_link(subscriber):
    """Return once the subscriber has a live link on which nothing waits."""
    await_true(lambda: subscriber.receive(0.05) == [] and subscriber.connected, "it is connected")


def await_refusal(subscriber, caplog):
    """Return once the publisher says that it refused a reader; the subscriber hears nothing until then."""

    def refused():
        assert subscriber.receive(0.05) == []
        return "was refused" in caplog.text

    await_true(refused, "it is refused")


def publish(publisher, first, count):
    for number in range(first, first + count):
        publisher.publish(b"payload %d" % number)


def test_who_is_known_reads_what_was_and_what_comes(keys, publisher):
    """Live and replayed, as on a plain stream."""
    keys.new_reader("collector")
    publish(publisher, 0, 3)
    with reader(publisher, keys.key("collector")) as subscriber:
        assert receive_count(subscriber, 3) == numbered(3)
        publish(publisher, 3, 2)
        assert receive_count(subscriber, 2) == numbered(2, start=3)


def test_a_stranger_and_one_without_a_key_get_nothing_until_they_are_let_in(keys, publisher, caplog):
    """The file of readers is read again; nobody restarts."""
    keys.new_reader("collector")
    keys.new_reader("stranger", known=False)
    publish(publisher, 0, 3)
    with (
        reader(publisher, keys.key("collector")) as known,
        reader(publisher, keys.key("stranger")) as stranger,
        reader(publisher, None) as plain,
    ):
        assert receive_count(known, 3) == numbered(3)
        await_refusal(stranger, caplog)
        assert plain.receive(QUIET_SECONDS) == []
        assert not stranger.connected
        assert not plain.connected
        keys.let_in("stranger")

        assert receive_count(stranger, 3) == numbered(3)
        assert plain.receive(QUIET_SECONDS) == []


def test_one_who_was_refused_is_connected_once_it_is_let_in(keys, publisher, caplog):
    """Live, not by replays alone: libzmq itself never tries again where it was refused."""
    keys.new_reader("late", known=False)
    with live_reader(publisher.endpoint, keys.key("late")) as late:
        await_refusal(late, caplog)
        assert not late.connected
        keys.let_in("late")
        await_link(late)
        publish(publisher, 0, 2)

        assert receive_count(late, 2) == numbered(2)


def test_a_reader_with_a_key_waits_for_a_publisher_that_is_not_encrypted_yet(keys):
    """Whichever of the two is restarted first, they find each other."""
    keys.new_reader("collector")
    endpoint = unused_endpoint()
    with live_reader(endpoint, keys.key("collector")) as subscriber:
        with zmq.Context() as context, context.socket(zmq.PUB) as plain:
            failures = plain.get_monitor_socket(zmq.Event.HANDSHAKE_FAILED_PROTOCOL)
            plain.bind(endpoint)
            await_true(lambda: subscriber.receive(0.05) == [] and failures.poll(0), "they are no match")
            assert not subscriber.connected
            plain.disable_monitor()
            failures.close()
        with closing(StreamPublisher(endpoint, ANY, buffer_bytes=1 << 20, lock=keys.lock())) as publisher:
            await_link(subscriber)
            publish(publisher, 0, 2)

            assert receive_count(subscriber, 2) == numbered(2)


def test_one_who_is_no_longer_known_does_not_come_back(keys, publisher, caplog):
    """A connection that is open stays; the next one is refused."""
    keys.new_reader("collector")
    publish(publisher, 0, 1)
    with reader(publisher, keys.key("collector")) as subscriber:
        assert receive_count(subscriber, 1) == numbered(1)
    keys.readers.write_text("# nobody any more\n")
    with reader(publisher, keys.key("collector")) as subscriber:
        await_refusal(subscriber, caplog)
        assert subscriber.receive(QUIET_SECONDS) == []


def test_a_new_server_key_loses_no_message(keys, publisher):
    """The publisher binds anew, its readers connect anew, and what fell in between is replayed."""
    keys.new_reader("collector")
    publish(publisher, 0, 2)
    with reader(publisher, keys.key("collector")) as subscriber:
        assert receive_count(subscriber, 2) == numbered(2)
        keys.new_server_key()
        publish(publisher, 2, 1)
        assert receive_count(subscriber, 1) == numbered(1, start=2)
        publish(publisher, 3, 1)
        assert receive_count(subscriber, 1) == numbered(1, start=3)
        await_link(subscriber)
    with reader(publisher, keys.key("collector")) as late:
        assert receive_count(late, 4) == numbered(4)


def test_a_file_that_cannot_be_used_leaves_the_old_key_in_use(keys, publisher):
    """Half-written files are nothing to stop for."""
    keys.new_reader("collector")
    lock = keys.lock()
    before = lock.key
    (keys.folder / "exporter.key").write_text("half")

    assert lock.key == before


@pytest.mark.parametrize("text", ["", "short", "x" * 39, "~" * 40, "$" * 40, "two keys\n", "\xff"])
def test_what_is_no_key_is_named(tmp_path, text):
    """With the file, and what makes one."""
    path = tmp_path / "key"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(BadSettings, match="key"):
        read_key(path)


def test_every_line_that_is_no_reader_is_named(tmp_path):
    """Not the first alone."""
    good, _ = zmq.curve_keypair()
    path = tmp_path / "readers"
    path.write_text(f"a {good.decode()}\nb\n# c\n{good.decode()}\nd {'$' * 40}\n")
    with pytest.raises(BadSettings) as raised:
        read_names(path)

    assert [problem.where for problem in raised.value.problems] == [
        f"{path}, line {number}" for number in (2, 4, 5)
    ]
