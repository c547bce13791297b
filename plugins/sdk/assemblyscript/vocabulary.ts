// The tokens' texts, for a sampler that says `export { vocabulary } from "sealhost/vocabulary"`.

import { TokenTable, TYPE_NORMAL } from "./sealhost";

/** Bytes of room: twice what 262,144 tokens take. */
export const WORDS: u32 = 8388608;

const words: usize = memory.data(8388608, 8);

/** Number of tokens, BOS, EOS; there from `init` on. */
export const tokens: TokenTable = changetype<TokenTable>(words);

export function vocabulary(size: u32): u32 {
  return size <= WORDS ? <u32>words : 0;
}

/** Address of the bytes that an id below tokens.count spells; control tokens spell none. */
export function tokenText(id: u32): usize {
  return words + tokens.bytes + load<u32>(words + tokens.offsets + 4 * id);
}

export function tokenLength(id: u32): u32 {
  const at = words + tokens.offsets + 4 * id;
  return load<u32>(at + 4) - load<u32>(at);
}

export function tokenType(id: u32): u32 {
  return max(<u32>load<u8>(words + tokens.types + id), TYPE_NORMAL);
}
