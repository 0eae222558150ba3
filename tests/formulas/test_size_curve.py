"""The bandwidth to expect of a message: measured on NVSwitch, a model elsewhere and between nodes."""

import pytest

from diagnose.formulas.collectives import transfer_s
from diagnose.formulas.size_curve import A100, HOPPER, HOPPER_NVSWITCH, NETWORK_LATENCY_S, GroupLinks

MIB = 1 << 20
H100 = GroupLinks(HOPPER, 450, ranks=8)
AMPERE = GroupLinks(A100, 300, ranks=8)


@pytest.mark.parametrize(("mib", "gbs"), HOPPER_NVSWITCH)
def test_the_curve_goes_through_what_was_measured_on_eight_h100(mib: float, gbs: float) -> None:
    assert H100.bus_gbs("allreduce", mib * MIB) == pytest.approx(gbs)


def test_a_bucket_of_25_mib_is_not_expected_to_reach_the_asymptote() -> None:
    assert 220 < (H100.bus_gbs("allreduce", 25 * MIB) or 0) < 276
    assert H100.asymptote_gbs == 464


def test_below_the_first_point_latency_alone_counts() -> None:
    assert H100.bus_gbs("allreduce", MIB / 4) == pytest.approx(10)


def test_half_the_bandwidth_is_reached_where_the_curve_says_so() -> None:
    size = H100.half_bandwidth_bytes or 0

    assert 16 * MIB < size < 32 * MIB
    assert H100.bus_gbs("allreduce", size) == pytest.approx(464 / 2)


def test_elsewhere_the_model_approaches_what_such_nodes_reach() -> None:
    assert AMPERE.bus_gbs("allreduce", 16 << 30) == pytest.approx(235, rel=0.01)
    half = AMPERE.half_bandwidth_bytes or 0
    assert AMPERE.bus_gbs("allreduce", half) == pytest.approx(235 / 2)


def test_between_nodes_the_boundary_of_a_node_bounds() -> None:
    four_nodes = GroupLinks(HOPPER, 450, ranks=16, nodes=4, node_gbs=100)
    size = 4 << 30

    seconds = transfer_s("allreduce", size, 4, 100e9) + NETWORK_LATENCY_S

    assert four_nodes.bus_gbs("allreduce", size) == pytest.approx(2 * 15 / 16 * size / seconds / 1e9)


@pytest.mark.parametrize("links", [GroupLinks("", None, 8), GroupLinks(HOPPER, 450, 16, nodes=2)])
def test_unknown_links_expect_nothing(links: GroupLinks) -> None:
    assert links.bus_gbs("allreduce", 64 * MIB) is None
    assert links.half_bandwidth_bytes is None
