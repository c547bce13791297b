// @NAME@: the longest token that fits, from left to right, for byte-level vocabularies (model "gpt2").
//
// It spells every text, but not with the ids that a model was trained on: change `encode`. The SDK's tokenizer.ts holds
// tokens, merges and flags; `length` bytes of text lie at `input`, and ids go to `output`.

import {
  ADD_SPECIAL, ERROR_CAPACITY, ERROR_INPUT, ERROR_UNSUPPORTED, fail, OK, PARSE_SPECIAL, TYPE_CONTROL, TYPE_UNKNOWN,
  TYPE_UNUSED, TYPE_USER_DEFINED, VOCAB_ADD_BOS, VOCAB_ADD_EOS,
} from "sealhost/sealhost";
import {
  flags as facts, input, INPUT, isByteLevel, loaded, output, take, token_count, tokenLength, tokenText, tokenType,
} from "sealhost/tokenizer";
export { layout, sealhost_tokenizer_v1, token_bytes } from "sealhost/tokenizer";

/** Slots of each table; twice the largest vocabulary, so that a search stays short. */
const SLOTS: u32 = 1 << 20;

// hash tables of ids + 1, by the bytes that the ids stand for
const plain: usize = memory.data(4194304, 8);
const special: usize = memory.data(4194304, 8);
let longest: u32 = 0;

const HASH_OF_NOTHING: u32 = 2166136261;

/** FNV-1a, which grows byte by byte along the text. */
function hashMore(hash: u32, byte: u8): u32 {
  return (hash ^ byte) * 16777619;
}

function isText(id: u32, bytes: usize, length: u32): bool {
  return tokenLength(id) == length && memory.compare(tokenText(id), bytes, length) == 0;
}

/** Address of the slot of these bytes, or of the free one where they belong. */
function slotOf(table: usize, hash: u32, bytes: usize, length: u32): usize {
  let at = hash ^ (hash >> 15);
  let slot = table + 4 * (at % SLOTS);
  while (load<u32>(slot) && !isText(load<u32>(slot) - 1, bytes, length)) slot = table + 4 * (++at % SLOTS);
  return slot;
}

function ready(): i32 {
  if (!isByteLevel()) return fail(ERROR_UNSUPPORTED, "load: expected tokenizer.ggml.model gpt2, got another");
  if (token_count > SLOTS / 2) return fail(ERROR_CAPACITY, "load: expected at most 524288 tokens, got more");
  for (let id: u32 = 0; id < token_count; id++) {
    const type = tokenType(id), length = tokenLength(id), text = tokenText(id);
    if (!length || type == TYPE_UNKNOWN || type == TYPE_UNUSED) continue; // clause 3.5: never from text
    let hash = HASH_OF_NOTHING;
    for (let i: u32 = 0; i < length; i++) hash = hashMore(hash, load<u8>(text + i));
    const table = type == TYPE_CONTROL || type == TYPE_USER_DEFINED ? special : plain;
    const slot = slotOf(table, hash, text, length);
    if (!load<u32>(slot)) store<u32>(slot, id + 1);
    longest = max(longest, length);
  }
  return OK;
}

function loadPiece(length: u32, final: u32): i32 {
  const status = take(length, final);
  return status == OK && final ? ready() : status;
}
export { loadPiece as load };

/** Length of what `match` found. */
let used: u32 = 0;

/** The longest special token at the front of the text, else the longest plain one; its id + 1, or 0. */
function match(text: usize, length: u32, controls: bool): u32 {
  let hash = HASH_OF_NOTHING, best: u32 = 0, bestSpecial: u32 = 0, plainLength: u32 = 0, specialLength: u32 = 0;
  for (let i: u32 = 0; i < min(length, longest); i++) {
    hash = hashMore(hash, load<u8>(text + i));
    const id = load<u32>(slotOf(plain, hash, text, i + 1)), other = load<u32>(slotOf(special, hash, text, i + 1));
    if (id) {
      best = id;
      plainLength = i + 1;
    }
    if (other && (controls || tokenType(other - 1) != TYPE_CONTROL)) { // clause 3.4
      bestSpecial = other;
      specialLength = i + 1;
    }
  }
  used = bestSpecial ? specialLength : plainLength;
  return bestSpecial ? bestSpecial : best;
}

export function encode(length: u32, flags: u32): i32 {
  if (!loaded || length > INPUT)
    return fail(ERROR_INPUT, "encode: expected a loaded vocabulary and a text within the input area");
  const add = (flags & ADD_SPECIAL) != 0, controls = (flags & PARSE_SPECIAL) != 0;
  const bos = add && (facts.bits & VOCAB_ADD_BOS) != 0 ? facts.bos : -1;
  const eos = add && (facts.bits & VOCAB_ADD_EOS) != 0 ? facts.eos : -1;
  let count: u32 = 0, at: u32 = 0, last = -1;
  while (at < length) {
    const found = match(input + at, length - at, controls);
    if (!found) {
      at++; // clause 3.3: a byte of which the vocabulary has no token is left out
      continue;
    }
    at += used;
    last = <i32>found - 1;
    if (!count && bos >= 0 && last != bos) store<u32>(output + 4 * count++, bos); // clause 3.6: never doubled
    store<u32>(output + 4 * count++, last);
  }
  if (!count && bos >= 0) store<u32>(output + 4 * count++, bos);
  if (eos >= 0 && last != eos) store<u32>(output + 4 * count++, eos);
  return count;
}
