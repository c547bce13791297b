"""Runs third-party tokenizers and samplers as WebAssembly guests; see README.md for the rules it keeps."""

from .compiler import CompileLimits
from .decision import Decision
from .errors import AdmissionError, GuestError, SandboxError
from .host import Sandbox
from .limits import Limits, OperatorLimits
from .params import SamplingParams
from .plugin import Plugin, PluginLimits
from .record import PluginStats
from .sampler import SamplerPlugin
from .session import SamplerSession
from .tokenizer import TokenizerPlugin
from .vocabulary import Vocabulary

__all__ = [
    "AdmissionError",
    "CompileLimits",
    "Decision",
    "GuestError",
    "Limits",
    "OperatorLimits",
    "Plugin",
    "PluginLimits",
    "PluginStats",
    "SamplerPlugin",
    "SamplerSession",
    "SamplingParams",
    "Sandbox",
    "SandboxError",
    "TokenizerPlugin",
    "Vocabulary",
]
