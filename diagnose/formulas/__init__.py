"""The formulas of the field as pure functions of numbers: model FLOPs, rooflines, collectives, energy, statistics.

Each takes plain numbers whose names carry the unit and gives the source of the formula. The rest of the package calls
them.
"""
