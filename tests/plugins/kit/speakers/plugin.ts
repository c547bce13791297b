// Says what the first letter of its configuration asks for.

import { EDITED, OK, PASS, STOP } from "sealhost/sealhost";
import {
  addBias, allow, allowNone, answer, answer_words, answerMask, answerSparse, backtrack, candidate, config, eachRow, fastForward,
  FULL_TIER, history, logText, MASK_TIER, publish, row, TOPK_TIER,
} from "sealhost/sampler";
import { tokenLength, tokens, tokenText, tokenType } from "sealhost/vocabulary";
export { vocabulary } from "sealhost/vocabulary";
export { sealhost_sampler_v1 } from "sealhost/sampler";

export function layout(): u32 {
  return publish(TIER, 2, 4);
}

export function init(): i32 {
  return OK;
}

export function reset(): i32 {
  return OK;
}

export function step(rows: u32): i32 {
  return eachRow(rows, sample);
}

function sample(): i32 {
  switch (load<u8>(config)) {
    case 0x6d:
      allowNone();
      allow(1);
      allow(40);
      return answerMask();
    case 0x73:
      addBias(0, 3, 100);
      addBias(1, 4, -Infinity);
      return answerSparse(2);
    case 0x66:
      for (let i: u32 = 0; i < 3; i++) store<u32>(answer_words + 4 * i, 5 + i);
      return fastForward(3);
    case 0x62:
      store<u32>(answer_words, 9);
      return backtrack(2, 1);
    case 0x6c:
      logText("hello\n");
      return answer(PASS, 0);
    case 0x65:
      candidate(0).logit = -Infinity;
      return answer(EDITED, 0);
    case 0x76: { // the text of the last token of the prompt, byte by byte, then its type, the number of tokens, and EOS
      const id = load<u32>(history + 4 * (row.prompt_length - 1)), length = tokenLength(id);
      for (let i: u32 = 0; i < length; i++) store<u32>(answer_words + 4 * i, <u32>load<u8>(tokenText(id) + i));
      store<u32>(answer_words + 4 * length, tokenType(id));
      store<u32>(answer_words + 4 * length + 4, tokens.count);
      store<u32>(answer_words + 4 * length + 8, <u32>tokens.eos);
      return fastForward(length + 3);
    }
    default:
      return answer(STOP, 0);
  }
}
