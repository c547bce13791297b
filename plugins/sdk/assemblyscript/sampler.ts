// The part of a sampler that all samplers share: its areas, its layout, and the walk over the rows of a step.
//
//   export function step(rows: u32): i32 {
//     return eachRow(rows, sample);       // or eachRow(rows, sample, tell) to keep something for each slot
//   }
//
// The layout that is exported here is of tier "full" with one slot. For anything else export your own instead:
//
//   export function layout(): u32 {
//     return publish(MASK_TIER, 4, 8);    // the tier, slots (at most ROWS), ids that one answer may take back
//   }

import {
  ABI_MINOR, BACKTRACK, Bias, Candidate, ERROR_BYTES, error_area, FAST_FORWARD, LOG_BYTES, MASK, OK, Result, Row, SamplerLayout,
  ERROR_CAPACITY, fail, ROW_SAMPLE, SPARSE,
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

/** Most slots; those that are not published take no memory, for no page of theirs is touched. */
export const ROWS: u32 = 4;

const logits_area: usize = memory.data(4210688, 4096);
const row_area: usize = memory.data(384, 8);
const result_area: usize = memory.data(64, 8);
const history_area: usize = memory.data(2097152, 8);
const candidate_area: usize = memory.data(8192, 8);
const answer_area: usize = memory.data(131584, 8);
export const bias: usize = memory.data(8192, 8);
export const config: usize = memory.data(16384, 8);
const log: usize = memory.data(4100, 8);
const published: SamplerLayout = changetype<SamplerLayout>(memory.data(88, 8));

/** The row at hand, and what belongs to its slot. */
export let row: Row = changetype<Row>(0);
/** f32[row.vocab_size]: write to them only to answer EDITED (clause 2.9). */
export let logits: usize = 0;
/** u32[row.history_length]: prompt ids, then generated ids. */
export let history: usize = 0;
/** Tier topk: `Candidate`[row.candidate_count], best first; change them to answer EDITED. */
export let candidates: usize = 0;
/** u32 words: the mask, or the ids that you append. */
export let answer_words: usize = 0;
let result: Result = changetype<Result>(0);

export const FULL_TIER: u32 = 0;
export const TOPK_TIER: u32 = 1;
export const MASK_TIER: u32 = 2;

export function sealhost_sampler_v1(): i32 {
  return ABI_MINOR;
}

/** The layout of a sampler that sees all logits and answers one choice. */
export function layout(): u32 {
  return publish(FULL_TIER, 1, 0);
}

/** For a `layout` of your own: the tier (clause 2.10), slots, and ids that one answer may take back. */
export function publish(tier: u32, rows: u32, max_backtrack: u32): u32 {
  published.size = offsetof<SamplerLayout>();
  published.minor = ABI_MINOR;
  published.max_rows = min(rows, ROWS);
  published.vocab_capacity = VOCAB;
  published.logits = tier == FULL_TIER ? <u32>logits_area : 0;
  published.logits_stride = tier == FULL_TIER ? 4 * VOCAB : 0;
  published.rows = <u32>row_area;
  published.results = <u32>result_area;
  published.history = <u32>history_area;
  published.history_capacity = HISTORY;
  published.bias = <u32>bias;
  published.bias_capacity = BIASES;
  published.config = <u32>config;
  published.config_capacity = CONFIG;
  published.error = <u32>error_area;
  published.error_capacity = <u32>ERROR_BYTES;
  published.candidates = tier == TOPK_TIER ? <u32>candidate_area : 0;
  published.candidate_capacity = tier == TOPK_TIER ? CANDIDATES : 0;
  published.answer = <u32>answer_area;
  published.answer_capacity = ANSWER;
  published.log = <u32>log;
  published.max_backtrack = max_backtrack;
  return <u32>changetype<usize>(published);
}

/** Calls `sample` for every row that wants an answer, and before that `tell` for every row, if there is one. */
export function eachRow(rows: u32, sample: () => i32, tell: (() => void) | null = null): i32 {
  if (rows > ROWS) return fail(ERROR_CAPACITY, "step: expected rows within this sampler's capacities");
  for (let index: u32 = 0; index < rows; index++) {
    row = changetype<Row>(row_area + index * offsetof<Row>());
    result = changetype<Result>(result_area + index * offsetof<Result>());
    if (!rowFits()) return fail(ERROR_CAPACITY, "step: expected rows within this sampler's capacities");
    logits = logits_area + row.slot * 4 * VOCAB;
    history = history_area + row.slot * 4 * HISTORY;
    candidates = candidate_area + row.slot * CANDIDATES * offsetof<Candidate>();
    answer_words = answer_area + row.slot * ANSWER;
    if (tell) tell();
    const status = row.flags & ROW_SAMPLE ? sample() : OK;
    if (status != OK) return status;
  }
  return OK;
}

/** Whether a row stays within the areas; a host that follows the ABI never asks for more. */
function rowFits(): bool {
  return (
    row.slot < ROWS && row.vocab_size <= VOCAB && row.prompt_length <= row.history_length && row.history_length <= HISTORY &&
    row.bias_count <= BIASES && row.config_length <= CONFIG && row.candidate_count <= CANDIDATES
  );
}

function counted(action: u32, token: u32, count: u32): i32 {
  result.size = offsetof<Result>();
  result.action = action;
  result.token = token;
  result.count = count;
  return OK;
}

/** The answer of this row, for `return answer(...)`; `token` counts for TOKEN alone. */
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

/** The uniform number of this row's draw, in [0, 1): clause 2.4. */
export function uniform(): f64 {
  return <f64>(row.random_0 >> 11) / 9007199254740992.0;
}
