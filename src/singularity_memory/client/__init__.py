"""The client of a memory server: asynchronous, typed, and made from the server's own document."""

from singularity_memory.client.connection import Rejected, Unreachable
from singularity_memory.client.operations import Client

__all__ = ["Client", "Rejected", "Unreachable"]
