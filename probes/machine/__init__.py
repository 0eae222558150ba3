"""The state of the machine during training:

`sampling` reads GPU and host once a second, `summary` keeps some readings.
"""
