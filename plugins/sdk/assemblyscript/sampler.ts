// The part of a sampler that all samplers share: its areas, its layout, and the checks of a row.
//
// These areas are those of tier "full" with one slot. For another tier say so in `init`: `declareTier(MASK_TIER)` or
// `declareTier(TOPK_TIER)`, and for backtracking `declareBacktrack(n)`. A request with n > 1 gets n instances.

import {
  ABI_MINOR, BACKTRACK, Bias, Candidate, ERROR_BYTES, error_area, FAST_FORWARD, LOG_BYTES, MASK, OK, Result, Row, SamplerLayout,
  SPARSE,
} from "./sealhost";

/** Logits of the largest model; a row is whole pages: 257 * 4096 bytes. */
export const VOCAB: u32 = 263168;
/** Ids of the longest context. */
export const HISTORY: u32 = 131072;
/** OpenAI's API allows 300. */
export const BIASES: u32 = 1024;
/** Bytes; the most that the ABI allows. */
export const CONFIG: u32 = 16384;
/** Bytes of the answer area: a mask over all ids. */
export const ANSWER: u32 = 32896;
/** Most candidates of tier topk. */
export const CANDIDATES: u32 = 256;

/** f32[row.vocab_size]: write to them only to answer EDITED (clause 2.9). */
export const logits: usize = memory.data(1052672, 4096);
export const row: Row = changetype<Row>(memory.data(96, 8));
const result: Result = changetype<Result>(memory.data(16, 8));
/** u32[row.history_length]: prompt ids, then generated ids. */
export const history: usize = memory.data(524288, 8);
export const bias: usize = memory.data(8192, 8);
export const config: usize = memory.data(16384, 8);
/** Tier topk: `Candidate`[row.candidate_count], best first; change them to answer EDITED. */
export const candidates: usize = memory.data(2048, 8);
/** u32 words: the mask, or the ids that you append. */
export const answer_words: usize = memory.data(32896, 8);
const log: usize = memory.data(4100, 8);
const published: SamplerLayout = changetype<SamplerLayout>(memory.data(88, 8));

export const FULL_TIER: u32 = 0;
export const TOPK_TIER: u32 = 1;
export const MASK_TIER: u32 = 2;
let tier: u32 = 0; // a name here would be worked out in a start function
let max_backtrack: u32 = 0;

/** For `init`: which areas the layout has (clause 2.10). */
export function declareTier(chosen: u32): void {
  tier = chosen;
}

/** For `init`: ids that one answer may take back. */
export function declareBacktrack(most: u32): void {
  max_backtrack = most;
}

export function sealhost_sampler_v1(): i32 {
  return ABI_MINOR;
}

export function layout(): u32 {
  published.size = offsetof<SamplerLayout>();
  published.minor = ABI_MINOR;
  published.max_rows = 1;
  published.vocab_capacity = VOCAB;
  published.logits = tier == FULL_TIER ? <u32>logits : 0;
  published.logits_stride = tier == FULL_TIER ? 4 * VOCAB : 0;
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
  published.candidates = tier == TOPK_TIER ? <u32>candidates : 0;
  published.candidate_capacity = tier == TOPK_TIER ? CANDIDATES : 0;
  published.answer = <u32>answer_words;
  published.answer_capacity = ANSWER;
  published.log = <u32>log;
  published.max_backtrack = max_backtrack;
  return <u32>changetype<usize>(published);
}

/** Whether a step stays within the areas; a host that follows the ABI never asks for more. */
export function stepFits(rows: u32): bool {
  return (
    rows == 1 && row.slot == 0 && row.vocab_size <= VOCAB && row.prompt_length <= row.history_length &&
    row.history_length <= HISTORY && row.bias_count <= BIASES && row.config_length <= CONFIG && row.candidate_count <= CANDIDATES
  );
}

function counted(action: u32, token: u32, count: u32): i32 {
  result.size = offsetof<Result>();
  result.action = action;
  result.token = token;
  result.count = count;
  return OK;
}

/** The answer of this step, for `return answer(...)`; `token` counts for TOKEN alone. */
export function answer(action: u32, token: u32): i32 {
  return counted(action, token, 0);
}

/** A mask: `allowNone()`, then `allow(id)` for each, then `return answerMask()`. */
export function allowNone(): void {
  memory.fill(answer_words, 0, 4 * ((row.vocab_size + 31) / 32));
}

export function allow(id: u32): void {
  const at = answer_words + 4 * (id / 32);
  store<u32>(at, load<u32>(at) | (1 << (id % 32)));
}

export function answerMask(): i32 {
  return counted(MASK, 0, 0);
}

/** Biases that the host adds: `addBias(0, id, value)`, `addBias(1, …)`, then `return answerSparse(their number)`. */
export function addBias(index: u32, id: u32, value: f32): void {
  const entry = changetype<Bias>(answer_words + index * offsetof<Bias>());
  entry.id = id;
  entry.bias = value;
}

export function answerSparse(count: u32): i32 {
  return counted(SPARSE, 0, count);
}

/** Ids from `answer_words`. */
export function fastForward(count: u32): i32 {
  return counted(FAST_FORWARD, 0, count);
}

/** Takes `off` ids back, at most row.backtrack_room, and appends ids from `answer_words`. */
export function backtrack(off: u32, count: u32): i32 {
  return counted(BACKTRACK, off, count);
}

/** The candidate of an index below row.candidate_count. */
export function candidate(index: u32): Candidate {
  return changetype<Candidate>(candidates + index * offsetof<Candidate>());
}

/** ASCII text for you, in the log ring (clause 2.15). */
export function logText(text: string): void {
  for (let i = 0; i < text.length; i++) {
    const written = load<u32>(log);
    store<u8>(log + 4 + (written % LOG_BYTES), <u8>text.charCodeAt(i));
    store<u32>(log, written + 1);
  }
}

/** The uniform number of this step's draw, in [0, 1): clause 2.4. */
export function uniform(): f64 {
  return <f64>(row.random_0 >> 11) / 9007199254740992.0;
}
