"""Goes through a captured conversation with a Player in the place of all nodes but one.

What a capture holds and our node does not do is taken out first: our senders ask for no zero-copy
ACK, and our node does not start discovery (pushes are answered, none is sent).
"""
import threading

import lib
from golden_play import endpoint

MESSAGES = ("lnet", "noop")


def play(player, records, on_step=None):
    """Goes through the records in order."""
    for record in records:
        if record["kind"] == "step" and on_step:
            on_step(record["text"])
        if record["kind"] not in MESSAGES:
            continue
        if endpoint(record, "src") == player.under_test:
            player.expect(record)
        elif endpoint(record, "dst") == player.under_test:
            player.send(record)
    player.nothing_more()


def without_zc_acks_to(under_test, records):
    """Our frames ask for none, so the played node sends none back."""
    return [r for r in records
            if not (r["kind"] == "noop" and endpoint(r, "dst") == under_test)]


def own_discovery(under_test, record):
    """A ping or push that the captured node sent by itself, with its answer."""
    return (record["kind"] == "lnet" and endpoint(record, "src") == under_test
            and record["type"] in ("GET", "PUT") and record.get("portal") == 0)


def without_own_discovery(under_test, records):
    gone = {r["n"] for r in records if own_discovery(under_test, r)}
    return [r for r in records if r["n"] not in gone and r.get("re") not in gone]


class Shell:
    """Runs commands one after the other in the background, as a user would: of lst, or of lnetctl
    where that is the first word; functions are conditions to wait for."""

    def __init__(self, daemon):
        self.daemon, self.threads, self.failed = daemon, [], []

    def start(self, *commands):
        self.join()

        def work():
            for command in commands:
                if callable(command):
                    lib.wait_for(command, "what the next command needs")
                    continue
                tool = self.daemon.lst
                if command[0] == "lnetctl":
                    tool, command = self.daemon.lnetctl, command[1:]
                code, out, err = tool(*command, check=False)
                if code != 0:
                    self.failed.append((command, code, out, err))
        thread = threading.Thread(target=work)
        thread.start()
        self.threads.append(thread)

    def join(self):
        for thread in self.threads:
            thread.join(lib.DEADLINE_S)
            assert not thread.is_alive(), "a command did not end"
        self.threads = []
        assert not self.failed, self.failed
