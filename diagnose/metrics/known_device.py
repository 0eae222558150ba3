"""The device of a rank, as far as it is known."""

from diagnose.hardware import Device, resolve
from diagnose.metrics.settings import Settings
from diagnose.timeline import Timeline
from diagnose.trace.record import CaptureRecord


def device_of(timeline: Timeline, settings: Settings, record: CaptureRecord) -> Device:
    """The device's peaks and bandwidth: as stated, as captured, then from the table; its rates as measured."""
    properties = timeline.device_properties
    stated = {"peak_tflops": settings.peak_tflops, "hbm_gbs": settings.hbm_gbs}
    return resolve(properties, record, measured=settings.measured, **stated)
