"""The one place that says which release this is. It imports nothing, so that a send can afford it."""

VERSION = "0.1.0"
