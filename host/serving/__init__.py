"""The HTTP data plane: an OpenAI-compatible API over engines, tokenizers and chat templates."""
