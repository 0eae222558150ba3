"""Energy and emissions of a training run."""


def energy_kwh(devices: int, device_w: float, hosts: int, host_w: float, hours: float) -> float:
    """Kilowatt-hours of devices and hosts. With the devices' power limits this is an upper bound."""
    return (devices * device_w + hosts * host_w) * hours / 1000


def emissions_kg(kwh: float, kg_per_kwh: float) -> float:
    """Kilograms of CO2 at a grid's carbon intensity."""
    return kwh * kg_per_kwh
