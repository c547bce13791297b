// The part of a sampler that all samplers share: its areas, its layout, and the checks of a step.

import { ABI_MINOR, ERROR_BYTES, error_area, OK, Result, Row, SamplerLayout } from "./sealhost";

/** Logits of the largest model; a row is whole pages: 257 * 4096 bytes. */
export const VOCAB: u32 = 263168;
/** Ids of the longest context. */
export const HISTORY: u32 = 131072;
/** OpenAI's API allows 300. */
export const BIASES: u32 = 1024;
/** Bytes; the most that the ABI allows. */
export const CONFIG: u32 = 16384;

/** f32[row.vocab_size]: write to them only to answer EDITED (clause 2.9). */
export const logits: usize = memory.data(1052672, 4096);
export const row: Row = changetype<Row>(memory.data(96, 8));
const result: Result = changetype<Result>(memory.data(16, 8));
/** u32[row.history_length]: prompt ids, then generated ids. */
export const history: usize = memory.data(524288, 8);
export const bias: usize = memory.data(8192, 8);
export const config: usize = memory.data(16384, 8);
const published: SamplerLayout = changetype<SamplerLayout>(memory.data(88, 8));

export function sealhost_sampler_v1(): i32 {
  return ABI_MINOR;
}

export function layout(): u32 {
  published.size = offsetof<SamplerLayout>();
  published.minor = ABI_MINOR;
  published.max_rows = 1;
  published.vocab_capacity = VOCAB;
  published.logits = <u32>logits;
  published.logits_stride = 4 * VOCAB;
  published.rows = <u32>changetype<usize>(row);
  published.results = <u32>changetype<usize>(result);
  published.history = <u32>history;
  published.history_capacity = HISTORY;
  published.bias = <u32>bias;
  published.bias_capacity = BIASES;
  published.config = <u32>config;
  published.config_capacity = CONFIG;
  published.error = <u32>error_area;
  published.error_capacity = <u32>ERROR_BYTES;
  return <u32>changetype<usize>(published);
}

/** Whether a step stays within the areas; a host that follows the ABI never asks for more. */
export function stepFits(rows: u32): bool {
  return (
    rows == 1 && row.vocab_size <= VOCAB && row.prompt_length <= row.history_length &&
    row.history_length <= HISTORY && row.bias_count <= BIASES && row.config_length <= CONFIG
  );
}

/** The answer of this step, for `return answer(...)`; `token` counts for TOKEN alone. */
export function answer(action: u32, token: u32): i32 {
  result.size = offsetof<Result>();
  result.action = action;
  result.token = token;
  result.count = 0;
  return OK;
}

/** The uniform number of this step's draw, in [0, 1): clause 2.4. */
export function uniform(): f64 {
  return <f64>(row.random_0 >> 11) / 9007199254740992.0;
}
