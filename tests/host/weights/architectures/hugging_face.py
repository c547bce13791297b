"""What Hugging Face's transformers answer; needs torch, so only the oracle's tests and `make_goldens.py` import it."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from tiny_models import Case, hugging_face_name, weights
from transformers import AutoConfig, AutoModelForCausalLM


def log_probs(case: Case) -> NDArray[np.float64]:
    """Log-probabilities of all ids after each of the case's ends, in float64. Shape: (ends, vocab)."""
    settings = {name: value for name, value in case.full_config.items() if value is not None}
    config = AutoConfig.for_model(case.model_type, attn_implementation="eager", pad_token_id=0, **settings)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").to(torch.float64).eval()
    state = {hugging_face_name(case, name): torch.from_numpy(array) for name, array in weights(case).items()}
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    expected = {name for name, _ in model.named_parameters()} | ({"lm_head.weight"} & set(model.state_dict()))
    assert expected == set(state), expected ^ set(state)
    model.load_state_dict(state)
    with torch.no_grad():
        logits = model(torch.tensor([case.ids]), use_cache=False).logits[0]
    wanted = logits[[end - 1 for end in case.ends]]
    return torch.log_softmax(wanted, dim=-1).numpy()
