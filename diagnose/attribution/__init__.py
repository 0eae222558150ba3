"""Where the time of a step goes: disjoint pieces that cover it, each with one cause."""

from diagnose.attribution.attribution import COPY_CAUSES, EXPOSED, HOST_CAUSES, LOW_INTENSITY, Attribution, attribute

__all__ = ["COPY_CAUSES", "EXPOSED", "HOST_CAUSES", "LOW_INTENSITY", "Attribution", "attribute"]
