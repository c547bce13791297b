"""A verified bundle becomes a model: GGUF, vocabulary, graph description and loader."""
