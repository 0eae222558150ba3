"""Points of the roofline beyond the decades that it draws: inside the frame, with an arrow to where they are."""

import drawn
from msgspec.structs import replace

from diagnose.report.html.roofline import BOTTOM, LEFT, Point, RooflineView, roofline_view


def view(*others: tuple[float, float]) -> RooflineView:
    """The roofline of a product and of families at these intensities and TFLOP/s."""
    of = drawn.drawn()
    entries = [of.roofline[0], *(drawn.entry("softmax", intensity=i, tflops=t) for i, t in others)]
    found = roofline_view(replace(of, roofline=tuple(entries)))
    assert found is not None
    return found


def points(*others: tuple[float, float]) -> list[Point]:
    chart = view(*others).chart
    assert chart is not None
    return chart.points


def test_a_point_within_the_drawing_has_no_arrow() -> None:
    assert [point.arrows for point in points((1.0, 1.0))] == [(), ()]


def test_a_far_slower_point_has_an_arrow_down() -> None:
    _, slow = points((1.0, 1e-7))

    assert len(slow.arrows) == 1
    assert slow.arrows[0].startswith(f"M{slow.x} {BOTTOM}l-6 ")
    assert slow.y + slow.r < BOTTOM
    assert slow.tip.endswith("beyond the edge of the drawing")


def test_a_point_beyond_both_edges_has_both_arrows() -> None:
    _, corner = points((1e-8, 1e-7))

    assert len(corner.arrows) == 2
    assert corner.x - corner.r > LEFT
    assert corner.y + corner.r < BOTTOM
