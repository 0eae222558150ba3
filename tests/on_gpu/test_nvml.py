"""What the driver tells of the card, in this process."""

import threading

import pytest
from needs import needs

from diagnose.probes.machine import nvml
from diagnose.probes.machine.nvml_readings import GpuReadings
from diagnose.probes.machine.sampling import MachineSampler

needs("torch")
pytestmark = pytest.mark.gpu


def uuid() -> str:
    import torch

    torch.cuda.init()
    return str(torch.cuda.get_device_properties(0).uuid)


@pytest.mark.parametrize("reading", ["gauges", "links", "limits"])
def test_a_reading_has_figures_above_zero(reading: str) -> None:
    told = getattr(GpuReadings(uuid()), reading)()

    assert told
    assert all(value >= 0 for value in told.values())
    assert max(told.values()) > 0


def test_power_and_clock_are_below_their_limits() -> None:
    gpu = GpuReadings(uuid())
    now, limits = gpu.gauges(), gpu.limits()

    assert 0 < now["power_w"] < 1.5 * limits["power_limit_w"]
    assert now.get("sm_clock_mhz", 0) <= limits["sm_clock_max_mhz"]


def test_reasons_of_the_clock_are_words() -> None:
    told = GpuReadings(uuid()).reasons()

    assert told is not None
    assert all(isinstance(reason, str) for reason in told)


def test_the_driver_says_its_version() -> None:
    assert nvml.driver_version().split(".")[0].isdigit()
    assert nvml.driver_cuda()


def test_a_card_that_is_not_there_is_refused() -> None:
    with pytest.raises(OSError, match=r"."):
        GpuReadings("GPU-00000000-0000-0000-0000-000000000000")


def test_the_readings_beside_the_steps_are_of_this_card() -> None:
    uuid()
    sampler = MachineSampler(interval_s=0.05)
    sampler.start()
    sampler.window_begins()
    threading.Event().wait(0.5)
    sampler.stop()

    assert (sampler.why_no_gpu, sampler.why_none) == ("", "")
    assert "power_w" in str(sampler.facts())
