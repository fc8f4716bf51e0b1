"""A day on two boxes, by our commands alone: who joins, what they write to each other, what each is told.

Every line that a command prints is asserted, and what stands in the comm folder is read by `jq` and `cksum`,
which share no code with us (PROTOCOL Mail and address-book verbs, Naming, Message frame, Delivery).
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deploy.fleet import Box, Fleet
from filing.liveness import utc_stamp
from filing.naming import hash6, host_component
from tests.end_to_end.conftest import LOCK_WAIT, PATIENT
from tests.filing.support import held_elsewhere
from tests.support.parts import need
from tests.support.peers import until
from tests.support.person import Person, Said, said
from verbs.project import raw_host

assert sys.platform != "win32"  # conftest.py leaves this folder out there

READ_WAIT = "SOT_INBOX_READ_WAIT_SECS"
BOX_PART = host_component(raw_host())
ANN = f"pipeline-{BOX_PART}"
CAT = f"pipeline-other-{BOX_PART}"
BOB = f"thesis-{BOX_PART}"
NOBODY = f"nobody-{BOX_PART}"
USAGE = 'usage: comm-send @HANDLE "TEXT" | @HANDLE --file PATH | --broadcast "TEXT"\n'
NOTHING_NEW = Said(0, "No new messages.\n")
MOST_BYTES = 1_048_575
QUOTES = """it's "quoted" \\n `$HOME` $(id) 100 % ü 漢字 🚢"""
KEEP_ALL = 'cat "inbox/$1.jsonl"'
APPEND = """
line=$(jq -cn --arg from "$2" --arg to "$1" --arg msg "$3" --arg ts 2026-05-29T18:04:00Z \
    '{from: $from, to: $to, repo: "by hand", msg: $msg, ts: $ts}')
flock "inbox/$1.lock" sh -c 'printf "%s\\n" "$2" >>"inbox/$1.jsonl"' sh "$1" "$line"
"""


@dataclass(frozen=True)
class Letter:
    """One line that stands in an inbox; `shown` is how comm-poll prints its text, where that differs."""

    head: str  # from:repo
    text: str
    shown: str | None = None
    to_all: bool = False

    def __str__(self) -> str:
        first, *others = (self.text if self.shown is None else self.shown).split("\n")
        return "\n".join(
            [f"[TIME] [{self.head}] {first}", *(f"  {line}" if line else "" for line in others), ""]
        )


@dataclass
class Day:
    """`ann` and `cat` work on the server, each in a checkout named pipeline; `bob` on the laptop."""

    fleet: Fleet
    ann: Person
    cat: Person
    bob: Person
    letters: dict[str, list[Letter]] = field(default_factory=lambda: {ANN: [], CAT: [], BOB: []})
    rows: dict[str, tuple[str, str, str]] = field(default_factory=dict)  # SEEN, STATE and SUMMARY
    shown: dict[str, int] = field(default_factory=lambda: {ANN: 0, CAT: 0, BOB: 0})  # by comm-poll
    checked: dict[str, int] = field(default_factory=lambda: {ANN: 0, CAT: 0, BOB: 0})  # by jq

    @property
    def server(self) -> Box:
        return self.ann.box

    @property
    def laptop(self) -> Box:
        return self.bob.box

    def sends(
        self, sender: Person, to: str, *words: str, stdin: bytes = b"", note: str = "", **letter: Any
    ) -> None:
        """Have one message filed: by the sender's own hand where its box lists the receiver."""
        here = "  " if sender.box is self.box_of(to) else ""
        assert sender.does("comm_send", f"@{to}", *words, stdin=stdin) == Said(
            0, f"{here}filed -> @{to}\n", note if here else ""
        )
        letter.setdefault("text", " ".join(words))
        repo = sender.root.name if here else "daemon"
        self.letters[to].append(Letter(f"{self.handle_of(sender)}:{repo}", **letter))

    def polls(self, who: Person, *words: str, before: str = "") -> None:
        """Poll, which shows what came since, each line of it, and moves the cursor."""
        handle = self.handle_of(who)
        new = self.letters[handle][self.shown[handle] :]
        expected = "".join(map(str, new)) or NOTHING_NEW.out
        assert who.does("comm_poll", *words) == Said(0, before + expected)
        if "--peek" not in words:
            self.shown[handle] = len(self.letters[handle])

    def lists(self, who: Person, news: str = "") -> None:
        """List who is there; `news` stands below the table."""
        rows = [("HANDLE", "BOX", "SEEN", "STATE", "SUMMARY")]
        for handle, (seen, state, summary) in sorted(self.rows.items(), key=self._live_first):
            if self.box_of(handle) is who.box:
                me = " (me)" if handle == self.handle_of(who) else ""
                rows.append((f"{handle}{me}", who.box.name, seen, state, summary))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        assert who.does("comm_list") == Said(0, "\n".join(table) + "\n" + (f"\n{news}\n" if news else ""))

    @staticmethod
    def _live_first(row: tuple[str, tuple[str, str, str]]) -> tuple[bool, str]:
        handle, (seen, _, _) = row
        return seen != "live", handle

    def handle_of(self, who: Person) -> str:
        return ANN if who is self.ann else CAT if who is self.cat else BOB

    def box_of(self, handle: str) -> Box:
        return self.laptop if handle == BOB else self.server


@pytest.fixture
def day() -> Iterator[Day]:
    need("jq", "flock", "cksum")
    with Fleet(PATIENT) as fleet:
        server, laptop = fleet.box("server"), fleet.box("laptop")
        sockets = [box.folder / "run" / "sot" for box in (server, laptop)]
        hub = fleet.start_hub(
            "server",
            "--listen",
            f"unix:{sockets[0] / 'hub.sock'}",
            hosts=fleet.hosts_file("server", ["laptop"]),
            web_socket=True,
        )
        fleet.start_link("laptop", hub.endpoint("ws"), "--listen", f"unix:{sockets[1] / 'link.sock'}")
        fleet.wait_linked("server", ["laptop"])
        # Shells of one box share a self file, so the second session there is given one of its own.
        own_slot = {"SOT_COMM_SELF_FILE": str(server.folder.resolve() / "cat.txt")}
        yield Day(
            fleet,
            ann=Person.in_project(server, "work", "pipeline"),
            cat=Person.in_project(server, "other", "pipeline", env=own_slot),
            bob=Person.in_project(laptop, "work", "thesis"),
        )


@pytest.mark.skipif(sys.platform != "linux", reason="a command appends by its own hand on Linux alone")
@pytest.mark.timeout(400)
async def test_a_day(day: Day) -> None:
    nobody_has_joined(day)
    everybody_joins(day)
    everybody_is_listed(day)
    mail_goes_both_ways(day)
    what_cannot_be_sent(day)
    plain_shell_reads_and_writes_the_same_folder(day)
    everybody_reads(day)
    states_are_declared(day)
    await a_writer_holds_the_inbox(day)
    a_writer_died(day)
    a_session_went_stale(day)
    everybody_leaves(day)
    bob_comes_back(day)
    the_hub_stops(day)


def nobody_has_joined(day: Day) -> None:
    registry, own = day.server.comm_home / "registry.json", day.server.comm_home / "self/server__nopane.txt"
    assert day.ann.does("comm_list") == Said(
        1,
        err="FAILED: the registry could not be read; nothing was listed\n"
        f"  there is no {registry}: comm-join, run in a project's folder, makes one\n",
    )
    assert day.ann.does("comm_poll") == Said(
        1, err=f"FAILED: not joined: there is no {own}; run comm-join first; nothing was read\n"
    )
    assert day.ann.does("comm_send", f"@{BOB}", "early") == Said(
        1,
        err=f"FAILED -> @{BOB}: no sender: there is no {own}; join first (comm-join), "
        "or set SOT_COMM_NAME; nothing was sent\n",
    )
    assert day.ann.does("comm_status") == Said(
        1, err=f"FAILED: not joined: there is no {own}; run comm-join first\n"
    )
    assert day.ann.does("comm_leave") == Said(
        0, f"Not joined: there is no {own}. There is nothing to leave.\n"
    )


# Joining


def joined(who: Person, handle: str, *, again: bool = False, notice: str = "") -> Said:
    home = who.box.comm_home
    return Said(
        0,
        f"Joined{' again' if again else ''} as @{handle}\n"
        f"  project     {who.root.name}, {who.root}\n"
        f"  box         {who.box.name}, outside any row\n"
        f"  reached by  comm-send @{handle} 'text', from any box\n"
        f"  inbox       {home}/inbox/{handle}.jsonl  (comm-poll shows it)\n",
        notice,
    )


def everybody_joins(day: Day) -> None:
    held = f"@{ANN} (by {day.ann.root})"
    assert day.ann.does("comm_join", "--expertise", "files, rust-backend") == joined(day.ann, ANN)
    assert day.cat.does("comm_join") == joined(
        day.cat, CAT, notice=f"comm: {held} already held — joining as @{CAT} instead\n"
    )
    assert day.bob.does("comm_join") == joined(day.bob, BOB)
    assert day.ann.does("comm_join") == joined(day.ann, ANN, again=True), "it keeps its expertise"
    assert day.cat.does("comm_join") == joined(day.cat, CAT, again=True)
    # A third checkout of that name below a folder of that name is told apart by a hash of its path.
    slot = {"SOT_COMM_SELF_FILE": str(day.server.folder.resolve() / "third.txt")}
    third = Person.in_project(day.server, "third", "other", "pipeline", env=slot)
    hashed = f"pipeline-{hash6(str(third.root))}-{BOX_PART}"
    notice = f"comm: {held} and @{CAT} (by {day.cat.root}) already held — joining as @{hashed} instead\n"
    assert third.does("comm_join") == joined(third, hashed, notice=notice)
    assert third.does("comm_leave") == removed(hashed)
    # A shell in another project has the same self file, and is nobody there.
    garden = Person.in_project(day.laptop, "work", "garden")
    assert garden.does("comm_poll") == Said(
        1,
        err=f"FAILED: not joined: {day.laptop.comm_home}/self/laptop__nopane.txt names @{BOB}, claimed for "
        f"root={day.bob.root}, and this is {garden.root}; run comm-join first; nothing was read\n",
    )


def everybody_is_listed(day: Day) -> None:
    day.rows = dict.fromkeys((ANN, CAT, BOB), ("live", "idle", ""))
    for who in (day.ann, day.cat, day.bob):
        day.lists(who)
    told = day.ann.does("comm_list", "--json")
    assert (told.code, told.err, told.out.count("\n")) == (0, "", 1)
    document = json.loads(told.out)
    for agent in document["agents"]:
        assert 0 <= agent.pop("age_s") < 600
    of_all = {"live": True, "host": "server", "last_seen": "TIME", "status": "idle", "state": "idle"}
    of_all |= {"summary": "", "repo": "pipeline", "workspace_id": ""}
    document["agents"].sort(key=lambda agent: not agent["me"])
    assert document == {
        "registry": str(day.server.comm_home / "registry.json"),
        "agents": [
            {
                **of_all,
                "handle": ANN,
                "me": True,
                "root": str(day.ann.root),
                "expertise": ["files", "rust-backend"],
                "unread": 0,
            },
            {**of_all, "handle": CAT, "me": False, "root": str(day.cat.root), "expertise": []},
        ],
    }


# Mail


def mail_goes_both_ways(day: Day) -> None:
    ann, cat, bob = day.ann, day.cat, day.bob
    day.sends(ann, CAT, "to the next desk")
    day.sends(ann, BOB, "over", "the", "wire")
    day.sends(bob, ANN, "and back")
    day.sends(bob, BOB, "a note to myself")
    for sender, to in ((cat, ANN), (ann, BOB)):  # by one's own hand, and by an offer
        day.sends(sender, to, "@bob is not the recipient")
        day.sends(sender, to, "/usr/bin is a text")
        day.sends(sender, to, "")
        day.sends(sender, to, "--", "--broadcast is a text", text="--broadcast is a text")
        day.sends(sender, to, "two\nlines\n\n")
        day.sends(sender, to, "U+2028 \u2028 and U+0085 \x85", shown="U+2028 \\u2028 and U+0085 \\x85")
        by_stdin(day, sender, to, b"from a pipe")
        by_stdin(day, sender, to, b"CR LF\r\na CR \r alone\x1b[2J", shown="CR LF\na CR \\r alone\\x1b[2J")
        by_stdin(day, sender, to, b"")
    for sender, to in ((cat, ANN), (ann, BOB), (bob, ANN), (bob, CAT)):
        day.sends(sender, to, QUOTES)
        by_file(day, sender, to, b"from a file\n")
        by_file(day, sender, to, b"a NUL \0 and a bell \a", shown="a NUL \\x00 and a bell \\x07")
        by_stdin(day, sender, to, b"900 kB " * (900_000 // 7))
    assert ann.does("comm_send", "--broadcast", "to all") == Said(
        0, f"  filed -> @{CAT}\nbroadcast -> 1 of 1 live sessions\n"
    )
    day.letters[CAT].append(Letter(f"{ANN}:pipeline", "to all", to_all=True))
    assert bob.does("comm_send", "--broadcast", "to all") == Said(0, "broadcast -> 0 of 0 live sessions\n")


def by_file(day: Day, sender: Person, to: str, data: bytes, shown: str | None = None) -> None:
    (sender.root / "letter").write_bytes(data)
    day.sends(sender, to, "--file", "letter", text=data.decode(), shown=shown)


def by_stdin(day: Day, sender: Person, to: str, data: bytes, shown: str | None = None) -> None:
    day.sends(sender, to, "--file", "-", stdin=data, text=data.decode(), shown=shown)


def failed(to: str, why: str) -> Said:
    return Said(1, err=f"FAILED -> @{to}: {why}\n")


def what_cannot_be_sent(day: Day) -> None:
    for who, to in ((day.cat, ANN), (day.bob, ANN)):
        assert who.does("comm_send", f"@{NOBODY}", "hi") == failed(
            NOBODY, f"no box knows that handle: {NOBODY}"
        )
        assert who.does("comm_send", "@no body", "hi") == failed("no body", 'not a handle: "no body"')
        assert who.does("comm_send", f"@{to}", "--file", "-", stdin=b"caf\xe9") == failed(
            to, "standard input is not UTF-8 at byte 3; nothing was sent"
        )
        assert who.does("comm_send", f"@{to}", "--file", "gone") == failed(
            to, "gone could not be read: No such file or directory; nothing was sent"
        )
        (who.root / "book").write_bytes(b"x" * (MOST_BYTES + 1))
        assert who.does("comm_send", f"@{to}", "--file", "book") == failed(
            to, f"the message is {MOST_BYTES + 1} bytes, and {MOST_BYTES} is the most; nothing was sent"
        )
        assert who.does("comm_send", to, "hi") == Said(
            2, err=f"comm-send: a recipient begins with @: did you mean @{to}?\n{USAGE}"
        )
        assert who.does("comm_send", f"@{to}") == Said(
            2, err=f'comm-send: there is no message: give its text (may be ""), or --file PATH\n{USAGE}'
        )
    check_inboxes(day)


def check_inboxes(day: Day) -> None:
    """Each inbox holds the letters that were filed, as `jq` reads it, and nothing else."""
    for handle, letters in day.letters.items():
        reader = day.bob if handle == BOB else day.ann
        lines = reader.shell(KEEP_ALL, handle).split(b"\n")
        assert lines.pop() == b""
        assert len(lines) == len(letters)
        heads = reader.shell('jq -r \'"\\(.from):\\(.repo) to \\(.to)."\' "inbox/$1.jsonl"', handle)
        assert heads.decode().splitlines() == [
            f"{letter.head} to {'' if letter.to_all else handle}." for letter in letters
        ]
        known, day.checked[handle] = day.checked[handle], len(letters)
        for line, letter in zip(lines[known:], letters[known:], strict=True):
            assert reader.shell("jq -r .msg", stdin=line) == letter.text.encode() + b"\n"


# Reading


def plain_shell_reads_and_writes_the_same_folder(day: Day) -> None:
    text = """typed by hand: it's "quoted", \\n and 🚢"""
    for who, handle in ((day.ann, ANN), (day.bob, BOB)):
        who.shell(APPEND, handle, "somebody", text)
        day.letters[handle].append(Letter("somebody:by hand", text))
    check_inboxes(day)


def everybody_reads(day: Day) -> None:
    for who, handle in ((day.ann, ANN), (day.cat, CAT), (day.bob, BOB)):
        # What all are sent is shown and not counted, and so is what one sends oneself.
        count = sum(
            not mail.to_all and not mail.head.startswith(f"{handle}:") for mail in day.letters[handle]
        )
        day.lists(who, news=f"{count} unread for @{handle}: comm-poll shows them")
        check_json(day, who, handle)
        day.polls(who, "--peek")
        assert not cursor(day, handle).exists()
        day.polls(who)
        check_cursor(day, handle)
        day.lists(who)
        day.polls(who)
        assert who.does("comm_poll", "--json") == Said(0)
        check_cursor(day, handle)


def check_json(day: Day, who: Person, handle: str) -> None:
    """`comm-poll --peek --json` gives every text exactly."""
    told = who.does("comm_poll", "--peek", "--json")
    assert (told.code, told.err) == (0, "")
    assert [json.loads(line) for line in told.out.splitlines()] == [
        {
            "line": number,
            "ts": "TIME",
            "from": sender,
            "to": "" if letter.to_all else handle,
            "repo": repo,
            "msg": letter.text,
        }
        for number, letter in enumerate(day.letters[handle], 1)
        for sender, repo in [letter.head.split(":")]
    ]


def cursor(day: Day, handle: str) -> Path:
    return day.box_of(handle).comm_home / "read" / f"{handle}.cursor"


def check_cursor(day: Day, handle: str) -> None:
    """The cursor counts what was shown and holds coreutils' own sum of the last line of it."""
    reader = day.bob if handle == BOB else day.ann
    count = day.shown[handle]
    summed = reader.shell('sed -n "$2p" "inbox/$1.jsonl" | tr -d "\\n\\0" | cksum', handle, str(count))
    crc, size = summed.split()
    assert cursor(day, handle).read_bytes() == b"%d %s-%s" % (count, crc, size)


# What the sessions do


def states_are_declared(day: Day) -> None:
    ann, cat, bob = day.ann, day.cat, day.bob
    done = Said(0)
    assert ann.does("comm_status") == Said(0, f"@{ANN} is idle (since TIME)\n")
    assert ann.does("comm_status", "prompt", "--origin", "user") == done
    assert ann.does("comm_status", "working", "rebuilding", "the backend") == done
    assert cat.does("comm_status", "blocked", "which branch?") == done
    assert bob.does("comm_status", "waiting", "for CI") == done
    day.rows[ANN] = ("live", "working", "rebuilding the backend")
    day.rows[CAT] = ("live", "blocked", "which branch?")
    day.rows[BOB] = ("live", "waiting", "for CI")
    day.lists(ann)
    day.lists(bob)
    assert ann.does("comm_status") == Said(0, f"@{ANN} is working: rebuilding the backend (since TIME)\n")
    assert ann.does("comm_status", "stop") == done
    assert cat.does("comm_status", "dialog", "Allow Bash?") == done
    assert bob.does("comm_status", "done", "chapter 3\nand 4") == done
    day.rows[ANN] = ("live", "done", "rebuilding the backend")
    day.rows[CAT] = ("live", "blocked", "Allow Bash?")
    day.rows[BOB] = ("live", "done", "chapter 3 and 4")
    day.lists(cat)
    day.lists(bob)
    told = json.loads(cat.does("comm_status", "--json").out)
    assert told == {
        "handle": CAT,
        "state": "blocked",
        "summary": "Allow Bash?",
        "status_at": "TIME",
        "last_seen": "TIME",
        "facts": {"dialog": "Allow Bash?", "question": "which branch?"},
    }
    assert cat.does("comm_status", "resumed") == done
    assert cat.does("comm_status") == Said(0, f"@{CAT} is blocked: which branch? (since TIME)\n")
    assert cat.does("comm_status", "idle", "") == done
    day.rows[CAT] = ("live", "idle", "")
    day.lists(ann)
    assert cat.does("comm_status") == Said(0, f"@{CAT} is idle (since TIME)\n")
    assert cat.does("comm_status", "blocked") == Said(
        2, err="comm-status: blocked needs its text -- stamp discarded\n"
    )
    assert cat.does("comm_status", "asleep") == Said(
        2,
        err="comm-status: unknown verb 'asleep' (one of prompt, stop, dialog, resumed, join, working, idle, "
        "blocked, waiting, done) -- stamp discarded\n",
    )


# Faults


async def a_writer_holds_the_inbox(day: Day) -> None:
    lock = day.server.comm_home / "inbox" / f"{ANN}.lock"
    day.sends(day.cat, ANN, "before the lock")
    with held_elsewhere(lock):
        assert day.ann.does("comm_poll", env={READ_WAIT: "0"}) == Said(
            75, f"the inbox for @{ANN} is being written — nothing was read; run comm-poll again\n"
        )
        assert day.cat.does("comm_send", f"@{ANN}", "now or never", env={LOCK_WAIT: "0"}) == failed(
            ANN, f"the inbox lock for @{ANN} was held for 0s — nothing was appended"
        )
        waiting = day.bob.starts("comm_send", f"@{ANN}", "I can wait")
        await until(lambda: day.fleet.ask("server", "hub.status", {})["in_flight"] == 1, "the hub has it")
    with waiting:
        assert said(waiting) == Said(0, f"filed -> @{ANN}\n")
    day.letters[ANN].append(Letter(f"{BOB}:daemon", "I can wait"))
    with held_elsewhere(lock, shared=True):  # another reader keeps none out
        day.polls(day.ann)
    check_cursor(day, ANN)


def a_writer_died(day: Day) -> None:
    half = '{"from":"dead'
    for who, handle, sender in ((day.ann, ANN, day.cat), (day.ann, ANN, day.bob), (day.bob, BOB, day.ann)):
        inbox = who.box.comm_home / "inbox" / f"{handle}.jsonl"
        who.shell('printf "%s" "$2" >>"inbox/$1.jsonl"', handle, half)
        warning = (
            f"WARNING: {inbox}: line {len(day.letters[handle]) + 1} is half a line ({len(half)} bytes) and "
            "is not shown: its writer died or is still at it, and its sender was not told filed. The next "
            f"message to @{handle} cuts it off; to keep it, copy it out before\n"
        )
        day.polls(who, before=warning)
        day.lists(who)
        check_cursor(day, handle)
        cut = f"note: inbox/{handle}.jsonl: cut back {len(half)} bytes of an unterminated last line\n"
        day.sends(sender, handle, "after the half line", note=cut)
        day.lists(who, news=f"1 unread for @{handle}: comm-poll shows it")
        day.polls(who)
        check_cursor(day, handle)
    check_inboxes(day)


def a_session_went_stale(day: Day) -> None:
    path = day.server.comm_home / "registry.json"
    registry = json.loads(path.read_text())
    registry["agents"][CAT]["last_seen"] = utc_stamp(time.time() - 9000)
    path.write_text(json.dumps(registry))
    for who in (day.ann, day.bob):
        assert who.does("comm_send", f"@{CAT}", "are you there?") == failed(
            CAT, f"no live session holds @{CAT}"
        )
    assert day.ann.does("comm_send", "--broadcast", "anybody?") == Said(
        0, "broadcast -> 0 of 0 live sessions\n"
    )
    day.rows[CAT] = ("2h ago", "idle", "")
    day.lists(day.ann)
    day.polls(day.cat)  # which is a sign of life
    day.rows[CAT] = ("live", "idle", "")
    day.lists(day.ann)
    day.sends(day.bob, CAT, "there you are")
    day.polls(day.cat)


# Leaving


def removed(handle: str) -> Said:
    return Said(0, f"@{handle} is removed from the registry; its inbox and read cursor stay.\n")


def everybody_leaves(day: Day) -> None:
    day.sends(day.cat, BOB, "unread when he leaves")
    assert day.cat.does("comm_leave") == removed(CAT)
    assert day.bob.does("comm_leave") == removed(BOB)
    gone = {CAT: f"no box knows that handle: {CAT}", BOB: f"no box knows that handle: {BOB}"}
    for to, why in gone.items():
        assert day.ann.does("comm_send", f"@{to}", "bye") == failed(to, why)
    slot = day.cat.env["SOT_COMM_SELF_FILE"]
    assert day.cat.does("comm_send", f"@{ANN}", "bye") == failed(
        ANN,
        f"no sender: there is no {slot}; join first (comm-join), or set SOT_COMM_NAME; nothing was sent",
    )
    assert day.cat.does("comm_poll") == Said(
        1, err=f"FAILED: not joined: there is no {slot}; run comm-join first; nothing was read\n"
    )
    assert day.cat.does("comm_status", "done") == Said(
        1,
        err="comm-status: no registry row for this session -- stamp discarded; "
        f"run it where comm-join was run\n  there is no {slot}\n",
    )
    assert day.cat.does("comm_status", "prompt") == Said(0), "a hook's event is silent"
    assert day.cat.does("comm_leave") == Said(
        0, f"Not joined: there is no {slot}. There is nothing to leave.\n"
    )
    del day.rows[CAT], day.rows[BOB]
    day.lists(day.cat)
    day.lists(day.ann)
    registry = day.laptop.comm_home / "registry.json"
    assert day.bob.does("comm_list") == Said(
        0, f"Nobody has joined yet ({registry}). comm-join, run in a project's folder, joins it.\n"
    )
    check_inboxes(day)


def bob_comes_back(day: Day) -> None:
    """The inbox and the cursor stayed: what was not read is read, and nothing else."""
    assert day.bob.does("comm_join") == joined(day.bob, BOB)
    day.rows[BOB] = ("live", "idle", "")
    day.lists(day.bob, news=f"1 unread for @{BOB}: comm-poll shows it")
    day.polls(day.bob)
    check_cursor(day, BOB)
    day.sends(day.ann, BOB, "welcome back")
    day.polls(day.bob)


def the_hub_stops(day: Day) -> None:
    """What a box can file by itself it files; what it cannot is said at once, and is not kept for later."""
    stop(day.server)
    day.sends(day.ann, ANN, "a note to myself")
    assert day.ann.does("comm_send", f"@{BOB}", "lost") == failed(BOB, no_daemon(day.server))
    day.sends(day.bob, BOB, "a note to myself")
    told = day.bob.does("comm_send", f"@{ANN}", "lost")
    assert (told.code, told.out) == (1, "")
    # Its reason is the connection's end, or what the next dialling met.
    assert told.err.startswith(f"FAILED -> @{ANN}: the link to the hub is down: ")
    assert told.err.endswith("; nothing was sent\n")
    assert told.err.count("\n") == 1
    stop(day.laptop)
    assert day.bob.does("comm_send", f"@{ANN}", "lost") == failed(ANN, no_daemon(day.laptop))
    day.polls(day.ann)
    day.polls(day.bob)
    check_inboxes(day)


def stop(box: Box) -> None:
    assert box.daemon is not None
    assert box.daemon.stop() == 0


def no_daemon(box: Box) -> str:
    sockets = box.folder / "run" / "sot"
    return (
        f"no sotd daemon found; nobody listens on unix:{sockets / 'link.sock'} or "
        f"unix:{sockets / 'hub.sock'}, and there is no {box.folder / 'config/sot/hosts.toml'} to name a hub: "
        "start one, or name one with SOT_RELAY_ENDPOINT or comm-relay's --endpoint "
        "(unix:/path, ssh:target, wss://host/, or on Windows pipe:name)"
    )
