"""Hooks into what every loop uses: torch's optimizers and loaders, and accelerate. `torch_hooks` puts them in."""
