// The part of a tokenizer that all tokenizers share: its areas, the vocabulary stream, and token_bytes.
//
// The stream stays where it was loaded. Texts of byte-level vocabularies (model "gpt2") are turned into the bytes that
// they spell, in place; of another model nothing is turned, so refuse what you do not know (clause 3.8).

import {
  ABI_MINOR, ERROR_BYTES, ERROR_CAPACITY, ERROR_INPUT, error_area, fail, OK, TokenizerLayout, TYPE_BYTE, TYPE_CONTROL,
  TYPE_NORMAL, TYPE_UNUSED, VocabFlags, VOCAB_FLAGS, VOCAB_MERGES, VOCAB_MODEL, VOCAB_PRE, VOCAB_TOKENS,
} from "./sealhost";

/** Bytes of text of one call. */
export const INPUT: u32 = 1048576;
/** An id for each byte, BOS and EOS. */
export const IDS: u32 = 1048578;
/** Bytes of the largest vocabulary: 262,144 tokens with as many merges take 12 MiB. */
export const STREAM: u32 = 25165824;

export const input: usize = memory.data(1048576, 8);
export const output: usize = memory.data(4194312, 8);
const stream: usize = memory.data(25165824, 8);
const published: TokenizerLayout = changetype<TokenizerLayout>(memory.data(32, 8));

let received: u32 = 0;
let finished: bool = false;
export let loaded: bool = false;

/** BOS, EOS and whether they are added. */
export const flags: VocabFlags = changetype<VocabFlags>(memory.data(16, 8));
export let model: usize = 0;
export let model_length: u32 = 0;
export let pre: usize = 0;
export let pre_length: u32 = 0;
let types: usize = 0;

// columns: u32 offsets[count + 1], then the bytes; nothing is aligned
export let token_count: u32 = 0;
let token_offsets: usize = 0;
let token_texts: usize = 0;
export let merge_count: u32 = 0;
let merge_offsets: usize = 0;
let merge_texts: usize = 0;

/** Address of the bytes that an id stands for. */
export function tokenText(id: u32): usize {
  return token_texts + load<u32>(token_offsets + 4 * id);
}

export function tokenLength(id: u32): u32 {
  return load<u32>(token_offsets + 4 * id + 4) - load<u32>(token_offsets + 4 * id);
}

/** Clause 4.4: 0 counts as normal. */
export function tokenType(id: u32): u32 {
  return max(<u32>load<u8>(types + id), TYPE_NORMAL);
}

/** Address of "left right", as the GGUF spells it; the best merge has rank 0. */
export function mergeText(rank: u32): usize {
  return merge_texts + load<u32>(merge_offsets + 4 * rank);
}

export function mergeLength(rank: u32): u32 {
  return load<u32>(merge_offsets + 4 * rank + 4) - load<u32>(merge_offsets + 4 * rank);
}

export function isByteLevel(): bool {
  return model_length == 4 && load<u32>(model) == 0x32747067; // "gpt2"
}

// ---- the stream -------------------------------------------------------------------------------------------

/** Clauses 4.3 and 4.7: whether offsets and bytes fill the payload to its end. */
function isColumn(payload: usize, length: u32, count: u32): bool {
  if (length / 4 <= count) return false;
  let last: u32 = 0;
  for (let i: u32 = 0; i <= count; i++) {
    const offset = load<u32>(payload + 4 * i);
    if (offset < last || (i == 0 && offset != 0)) return false;
    last = offset;
  }
  return last == length - 4 * (count + 1);
}

function readSection(tag: u32, at: usize, length: u32): bool {
  const count: u32 = length >= 4 ? load<u32>(at) : 0;
  if (tag == VOCAB_MODEL) {
    model = at;
    model_length = length;
  } else if (tag == VOCAB_PRE) {
    pre = at;
    pre_length = length;
  } else if (tag == VOCAB_FLAGS) {
    if (length < offsetof<VocabFlags>()) return false;
    memory.copy(changetype<usize>(flags), at, offsetof<VocabFlags>());
  } else if (tag == VOCAB_TOKENS) { // types, scores, offsets, bytes
    if (length < 4 || count > (length - 4) / 9) return false;
    types = at + 4;
    token_count = count;
    token_offsets = types + 5 * count;
    token_texts = token_offsets + 4 * (count + 1);
    return isColumn(token_offsets, length - 4 - 5 * count, count);
  } else if (tag == VOCAB_MERGES) {
    if (length < 4) return false;
    merge_count = count;
    merge_offsets = at + 4;
    merge_texts = merge_offsets + 4 * (count + 1);
    return isColumn(merge_offsets, length - 4, count);
  }
  return true; // clause 4.1: of a later version
}

/** Clauses 4.1 and 4.7. */
function readStream(): bool {
  let at: u32 = 0, last: u32 = 0, seen: u32 = 0;
  while (at < received) {
    if (received - at < 8) return false;
    const tag = load<u32>(stream + at), length = load<u32>(stream + at + 4);
    at += 8;
    if (tag <= last || length > received - at || !readSection(tag, stream + at, length)) return false;
    seen += u32(tag <= VOCAB_MERGES);
    last = tag;
    at += length;
  }
  return seen == VOCAB_MERGES && flags.bos < <i32>token_count && flags.eos < <i32>token_count;
}

/** The byte that a letter of GPT-2's alphabet spells; -1: the letter is none of it. */
function spelledByte(letter: u32): i32 {
  if ((letter >= 33 && letter <= 126) || (letter >= 161 && letter <= 172) || (letter >= 174 && letter <= 255)) return letter;
  if (letter < 256 || letter > 323) return -1;
  const rank = letter - 256; // the bytes that are left, in order: 0..32, 127..160, 173
  return rank < 33 ? rank : rank < 67 ? rank + 94 : 173;
}

/** Turns one text into the bytes that it spells, in place, and returns their number; 0: it stands for itself. */
function spell(text: usize, length: u32): u32 {
  let made: u32 = 0;
  for (let write = 0; write < 2; write++) { // first look, then write: a text outside the alphabet stays as it is
    made = 0;
    for (let i: u32 = 0; i < length; i++) {
      let letter = <u32>load<u8>(text + i);
      if (letter >= 0x80) { // the alphabet ends at U+0143: two bytes of UTF-8
        if (letter < 0xC2 || letter > 0xDF || i + 1 == length || (load<u8>(text + i + 1) & 0xC0) != 0x80) return 0;
        letter = ((letter & 0x1F) << 6) | (load<u8>(text + ++i) & 0x3F);
      }
      const byte = spelledByte(letter);
      if (byte < 0) return 0;
      if (write) store<u8>(text + made, <u8>byte);
      made++;
    }
  }
  return made;
}

/** Clause 4.6: what is spelled is never longer than its spelling. */
function spellAll(): void {
  let end: u32 = 0, start: u32 = 0;
  for (let id: u32 = 0; id < token_count; id++) {
    const next = load<u32>(token_offsets + 4 * id + 4), type = tokenType(id);
    const spelled = type == TYPE_NORMAL || type == TYPE_UNUSED || type == TYPE_BYTE;
    const made = spelled ? spell(token_texts + start, next - start) : 0;
    const kept = made ? made : next - start;
    memory.copy(token_texts + end, token_texts + start, kept);
    end += kept;
    start = next;
    store<u32>(token_offsets + 4 * id + 4, end);
  }
}

// ---- exports that every tokenizer spells alike --------------------------------------------------------------

export function sealhost_tokenizer_v1(): i32 {
  return ABI_MINOR;
}

export function layout(): u32 {
  published.size = offsetof<TokenizerLayout>();
  published.minor = ABI_MINOR;
  published.input = <u32>input;
  published.input_capacity = INPUT;
  published.output = <u32>output;
  published.output_capacity = 4 * IDS;
  published.error = <u32>error_area;
  published.error_capacity = <u32>ERROR_BYTES;
  return <u32>changetype<usize>(published);
}

/** Takes a piece of the stream; after the last one the vocabulary is there. */
export function take(length: u32, final: u32): i32 {
  if (finished || length > INPUT) return fail(ERROR_INPUT, "load: expected pieces within the input area, once");
  if (length > STREAM - received)
    return fail(ERROR_CAPACITY, "load: the vocabulary stream does not fit into this guest's memory");
  memory.copy(stream + received, input, length);
  received += length;
  if (!final) return OK;
  finished = true;
  if (!readStream()) return fail(ERROR_INPUT, "load: the vocabulary stream is malformed");
  if (isByteLevel()) spellAll();
  loaded = true;
  return OK;
}

/** Clause 3.7. */
export function token_bytes(first: u32, count: u32): i32 {
  if (!loaded || first > token_count || count > token_count - first)
    return fail(ERROR_INPUT, "token_bytes: the ids are not in the vocabulary");
  let needed = 4 * count;
  for (let id = first; id < first + count; id++) needed += tokenType(id) == TYPE_CONTROL ? 0 : tokenLength(id);
  if (needed > 4 * IDS) return -(<i32>needed);
  let to = output + 4 * count;
  for (let id = first; id < first + count; id++) {
    const length = tokenType(id) == TYPE_CONTROL ? 0 : tokenLength(id);
    store<u32>(output + 4 * (id - first), length);
    memory.copy(to, tokenText(id), length);
    to += length;
  }
  return needed;
}
