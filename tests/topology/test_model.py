import dataclasses
import pickle

import pytest

from topology.model import Host, HostWarning, Topology

TOPOLOGY = Topology(
    hub="h",
    hosts=(
        Host("z", frontend=True),
        Host("h", daemon=True, frontend=True, url="ssh:h"),
        Host("b", daemon=True),
    ),
    monitor=(("h", ""),),
)


def test_a_host_is_found_by_its_name() -> None:
    assert TOPOLOGY.host("b") == Host("b", daemon=True)
    assert TOPOLOGY.host("B") is None
    assert TOPOLOGY.lists("z")
    assert not TOPOLOGY.lists("")


def test_the_hub_s_url() -> None:
    assert TOPOLOGY.hub_url() == "ssh:h"
    assert dataclasses.replace(TOPOLOGY, hub="b").hub_url() is None


def test_the_hub_holds_no_link_to_itself() -> None:
    assert TOPOLOGY.link_holders() == ("z",)


def test_names_stand_in_file_order_and_others_after_them_by_name() -> None:
    assert TOPOLOGY.in_file_order({"b", "y", "z", "a", "h"}) == ["z", "h", "b", "a", "y"]
    assert TOPOLOGY.in_file_order(iter(())) == []


@pytest.mark.parametrize("value", [TOPOLOGY, TOPOLOGY.hosts[0], HostWarning("f", 1, "a", "k", "s")])
def test_nothing_of_it_can_be_changed(value: object) -> None:
    assert dataclasses.is_dataclass(value)
    for field in dataclasses.fields(value):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, field.name, None)
    with pytest.raises((AttributeError, TypeError)):
        setattr(value, "more", 1)  # noqa: B010  # mypy would refuse the plain form
    with pytest.raises(TypeError):
        TOPOLOGY._place["new"] = 1  # type: ignore[index]  # that it fails is the point


def test_it_compares_and_hashes_by_what_it_says() -> None:
    same = dataclasses.replace(TOPOLOGY)
    assert same == TOPOLOGY
    assert hash(same) == hash(TOPOLOGY)
    assert dataclasses.replace(TOPOLOGY, sha256="00") != TOPOLOGY


def test_a_warning_names_file_and_line() -> None:
    assert str(HostWarning("hosts.toml", 4, "a", "colour", "a sentence")) == "hosts.toml:4: a sentence"


def test_hosts_can_be_pickled() -> None:
    assert pickle.loads(pickle.dumps(TOPOLOGY.hosts)) == TOPOLOGY.hosts
