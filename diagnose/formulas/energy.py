"""Duration, energy, emissions and cost of a training run."""

from diagnose.formulas.model_flops import dense_flops_per_token

SECONDS_PER_DAY = 86400
SECONDS_PER_YEAR = 3.156e7  # 365.25 days to four digits


def training_flops(parameters: float, tokens: float) -> float:
    """6·N·D FLOPs of training a dense model on so many tokens (Kaplan et al. 2020)."""
    return dense_flops_per_token(parameters) * tokens


def training_s(flops: float, devices: int, peak_flops: float, mfu: float) -> float:
    """Seconds of a run: FLOPs over what the devices do in a second; `mfu` is a share of the peak (FLOP/s)."""
    return flops / (devices * peak_flops * mfu)


def energy_kwh(devices: int, device_w: float, hosts: int, host_w: float, hours: float) -> float:
    """Kilowatt-hours of devices and hosts. With the devices' power limits this is an upper bound."""
    return (devices * device_w + hosts * host_w) * hours / 1000


def kwh_at_utilisation(kwh: float, factor: float) -> float:
    """Kilowatt-hours of the same work when utilisation grows by the factor and power stays."""
    return kwh / factor


def emissions_kg(kwh: float, kg_per_kwh: float) -> float:
    """Kilograms of CO2 at a grid's carbon intensity."""
    return kwh * kg_per_kwh


def energy_cost(kwh: float, price_per_kwh: float) -> float:
    """Cost of energy, in the currency of the price."""
    return kwh * price_per_kwh


def energy_per_token_j(power_w: float, tokens_per_s: float, devices: int = 1) -> float:
    """Joules per token; with the power limit of a device this is an upper bound."""
    return power_w * devices / tokens_per_s


def cost_of_tokens(tokens: float, price_per_device_hour: float, devices: int, job_tokens_per_s: float) -> float:
    """Cost of training on so many tokens, in the currency of the price."""
    return price_per_device_hour * devices * tokens / (job_tokens_per_s * 3600)
