"""The numbers of program.py as plain module names: numba takes those for constants, but no enum members.

c_ words of the context, l_ offsets in a layer, m_ words of a matrix, f_ faults.
"""

from __future__ import annotations

from ..layouts import BLOCK, NARROW
from .program import Context, Fault, Form, Layer, Matrix

_C = {member.name: int(member) for member in Context}
m_kind, m_rows, m_blocks, m_tiles, m_tile_bytes, m_data, m_few = (int(member) for member in list(Matrix)[:7])
ROW_BYTES, ACT_BYTES = 4 * BLOCK, NARROW.size
PACKED, UNPACKED, WIDE, WIDE_UNPACKED = (int(form) for form in Form)

c_sync, c_threads, c_layer_count, c_layers = _C["SYNC"], _C["THREADS"], _C["LAYER_COUNT"], _C["LAYERS"]
c_dim, c_attention, c_hidden = _C["DIM_BLOCKS"], _C["ATTENTION_BLOCKS"], _C["HIDDEN_BLOCKS"]
c_heads, c_kv_heads, c_head_dim, c_rope_half, c_tile_tokens = (
    _C["HEADS"],
    _C["KV_HEADS"],
    _C["HEAD_DIM"],
    _C["ROPE_HALF"],
    _C["TILE_TOKENS"],
)
c_strip = _C["STRIP"]
c_epsilon, c_query_scale, c_one = _C["EPSILON"], _C["QUERY_SCALE"], _C["ONE"]
c_embedding_scale, c_attention_cap, c_logit_cap = _C["EMBEDDING_SCALE"], _C["ATTENTION_CAP"], _C["LOGIT_CAP"]
c_gelu, c_y, c_local_low, c_local_x = _C["GELU"], _C["Y"], _C["LOCAL_LOW"], _C["LOCAL_X"]
c_embedding, c_head, c_output_norm = _C["EMBEDDING"], _C["HEAD"], _C["OUTPUT_NORM"]
c_kv_head_bytes, c_kv_block_bytes = _C["KV_HEAD_BYTES"], _C["KV_BLOCK_BYTES"]
c_x, c_qkv, c_qkv_stride, c_att = _C["X"], _C["QKV"], _C["QKV_STRIDE"], _C["ATTENTION"]
c_acts, c_acts_stride, c_wide_stride, c_plain, c_plain_stride = (
    _C["ACTS"],
    _C["ACTS_STRIDE"],
    _C["WIDE_STRIDE"],
    _C["PLAIN"],
    _C["PLAIN_STRIDE"],
)
c_hid, c_hid_stride, c_hid_plain, c_hid_plain_stride = (
    _C["HIDDEN"],
    _C["HIDDEN_STRIDE"],
    _C["HIDDEN_PLAIN"],
    _C["HIDDEN_PLAIN_STRIDE"],
)
c_tiles, c_tile_count, c_partitions = _C["TILES"], _C["TILE_COUNT"], _C["PARTITIONS"]
c_partials, c_partials_most = _C["PARTIALS"], _C["PARTIALS_MOST"]
c_local, c_local_stride, c_local_acts, c_local_plain = (
    _C["LOCAL"],
    _C["LOCAL_STRIDE"],
    _C["LOCAL_ACTS"],
    _C["LOCAL_PLAIN"],
)
c_local_lines, c_local_out, c_local_queries, c_local_scores = (
    _C["LOCAL_LINES"],
    _C["LOCAL_OUT"],
    _C["LOCAL_QUERIES"],
    _C["LOCAL_SCORES"],
)
c_local_partials, c_local_states, c_local_seen, c_local_row = (
    _C["LOCAL_PARTIALS"],
    _C["LOCAL_STATES"],
    _C["LOCAL_SEEN"],
    _C["LOCAL_ROW"],
)
c_tokens, c_positions, c_sequences = _C["TOKENS"], _C["POSITIONS"], _C["SEQUENCES"]
c_tables, c_window_tables, c_table_stride = _C["TABLES"], _C["WINDOW_TABLES"], _C["TABLE_STRIDE"]
c_logits_tokens, c_logits_addresses = _C["LOGITS_TOKENS"], _C["LOGITS_ADDRESSES"]
c_vocab, c_position_limit, c_kv_blocks = _C["VOCAB"], _C["POSITION_LIMIT"], _C["KV_BLOCKS"]
c_window, c_window_blocks = _C["WINDOW"], _C["WINDOW_BLOCKS"]
c_n, c_sequence_count, c_logits_count = _C["TOKEN_COUNT"], _C["SEQUENCE_COUNT"], _C["LOGITS_COUNT"]
f_token, f_position, f_order, f_block, f_logits = (int(fault) for fault in list(Fault)[1:])
l_att_norm, l_ff_norm, l_keys, l_values = (
    int(Layer[name]) for name in ("ATTENTION_NORM", "FEED_FORWARD_NORM", "KEYS", "VALUES")
)
l_rope, l_window, l_tables, l_bias = (int(Layer[name]) for name in ("ROPE", "WINDOW", "TABLES", "BIAS"))
l_query_norm, l_key_norm, l_post_att, l_post_ff = (
    int(Layer[name]) for name in ("QUERY_NORM", "KEY_NORM", "POST_ATTENTION_NORM", "POST_FEED_FORWARD_NORM")
)
l_query, l_key, l_value, l_out = (int(Layer[name]) for name in ("QUERY", "KEY", "VALUE", "ATTENTION_OUTPUT"))
l_gate, l_up, l_down, l_end = (int(Layer[name]) for name in ("GATE", "UP", "DOWN", "END"))
