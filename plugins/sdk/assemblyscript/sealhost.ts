// sealhost plugin ABI, version 1, for guests in AssemblyScript: `../c/sealhost.h` field for field, and what all guests
// share. Nothing here allocates: areas are static memory, and a module without allocations needs no start function.
//
// Clause numbers are those of plugins/README.md. Integers are little-endian, as wasm32 is.

export const ABI_MINOR: i32 = 0;

// ---- status codes -----------------------------------------------------------------------------------------

export const OK: i32 = 0;
export const ERROR: i32 = -0x40000000;
export const ERROR_CONFIG: i32 = -0x40000001;
export const ERROR_UNSUPPORTED: i32 = -0x40000002;
export const ERROR_INPUT: i32 = -0x40000003;
export const ERROR_CAPACITY: i32 = -0x40000004;
export const ERROR_EMPTY: i32 = -0x40000005;

// ---- sampler ----------------------------------------------------------------------------------------------

@unmanaged
export class SamplerLayout {
  size: u32;
  minor: u32;
  max_rows: u32;
  vocab_capacity: u32;
  logits: u32;
  logits_stride: u32;
  rows: u32;
  results: u32;
  history: u32;
  history_capacity: u32;
  bias: u32;
  bias_capacity: u32;
  config: u32;
  config_capacity: u32;
  error: u32;
  error_capacity: u32;
  candidates: u32;
  candidate_capacity: u32;
  answer: u32;
  answer_capacity: u32;
  log: u32;
  max_backtrack: u32;
}

export const ROW_NEW: u32 = 1;
export const ROW_ACCEPT: u32 = 2;
export const ROW_SAMPLE: u32 = 4;
export const ROW_FORK: u32 = 8;
export const ROW_CLOSE: u32 = 16;

@unmanaged
export class Row {
  size: u32;
  slot: u32;
  flags: u32;
  vocab_size: u32;
  random_0: u64;
  random_1: u64;
  prompt_length: u32;
  history_length: u32;
  bias_count: u32;
  config_length: u32;
  temperature: f32;
  top_k: i32;
  top_p: f32;
  min_p: f32;
  repetition_penalty: f32;
  presence_penalty: f32;
  frequency_penalty: f32;
  candidate_count: u32;
  parent: u32;
  taken_back: u32;
  appended: u32;
  backtrack_room: u32;
}

@unmanaged
export class Bias {
  id: u32;
  bias: f32;
}

@unmanaged
export class Candidate {
  id: u32;
  logit: f32;
}

export const LOG_BYTES = <u32>4096;

export const TOKEN: u32 = 1;
export const PASS: u32 = 2;
export const EDITED: u32 = 3;
export const MASK: u32 = 4;
export const SPARSE: u32 = 5;
export const STOP: u32 = 6;
export const BACKTRACK: u32 = 7;
export const FAST_FORWARD: u32 = 8;

@unmanaged
export class Result {
  size: u32;
  action: u32;
  token: u32;
  count: u32;
}

@unmanaged
export class TokenTable {
  size: u32;
  count: u32;
  bos: i32;
  eos: i32;
  unknown: i32;
  types: u32;
  offsets: u32;
  bytes: u32;
}

// ---- tokenizer --------------------------------------------------------------------------------------------

@unmanaged
export class TokenizerLayout {
  size: u32;
  minor: u32;
  input: u32;
  input_capacity: u32;
  output: u32;
  output_capacity: u32;
  error: u32;
  error_capacity: u32;
}

export const ADD_SPECIAL: u32 = 1;
export const PARSE_SPECIAL: u32 = 2;

export const VOCAB_MODEL: u32 = 1;
export const VOCAB_PRE: u32 = 2;
export const VOCAB_FLAGS: u32 = 3;
export const VOCAB_TOKENS: u32 = 4;
export const VOCAB_MERGES: u32 = 5;

@unmanaged
export class VocabFlags {
  bits: u32;
  bos: i32;
  eos: i32;
  unknown: i32;
}

export const VOCAB_ADD_BOS: u32 = 1;
export const VOCAB_ADD_EOS: u32 = 2;
export const VOCAB_ADD_SPACE_PREFIX: u32 = 4;

export const TYPE_NORMAL: u32 = 1;
export const TYPE_UNKNOWN: u32 = 2;
export const TYPE_CONTROL: u32 = 3;
export const TYPE_USER_DEFINED: u32 = 4;
export const TYPE_UNUSED: u32 = 5;
export const TYPE_BYTE: u32 = 6;

// ---- what all guests share ----------------------------------------------------------------------------------

export const ERROR_BYTES: usize = 512;
export const error_area: usize = memory.data(512, 8);

/** One sentence in ASCII and its status, for `return fail(...)`. */
export function fail(status: i32, text: string): i32 {
  const kept = min(text.length, <i32>ERROR_BYTES - 1);
  for (let i = 0; i < kept; i++) store<u8>(error_area + i, <u8>text.charCodeAt(i));
  store<u8>(error_area + kept, 0);
  return status;
}

/** `abort` of the AssemblyScript runtime: a trap, since a guest imports nothing. */
export function trap(_message: string | null, _file: string | null, _line: u32, _column: u32): void {
  unreachable();
}
