"""The roofline (Williams et al. 2009). Bandwidth in bytes/s, peaks in FLOP/s."""


def ridge(peak_flops: float, bytes_per_s: float) -> float:
    """FLOP/B at which a kernel can reach both the peak and the bandwidth."""
    return peak_flops / bytes_per_s


def hbm_bytes_per_s(memory_clock_hz: float, bus_bits: int) -> float:
    """Peak bandwidth of double-data-rate memory from what torch.cuda.get_device_properties reports."""
    transfers_per_clock, bits_per_byte = 2, 8
    return memory_clock_hz * transfers_per_clock * bus_bits / bits_per_byte
