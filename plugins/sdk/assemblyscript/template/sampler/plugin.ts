// @NAME@: forbids the last token, so that none comes twice in a row, and leaves the drawing to the host.
//
// Change `sample`. What the host writes before it is called: `row` (parameters, lengths, randomness), f32 logits, u32
// history, biases, configuration, each at the address of its name.

import { EDITED, OK, PASS, STOP } from "sealhost/sealhost";
import { answer, eachRow, history, logits, row } from "sealhost/sampler";
export { layout, sealhost_sampler_v1 } from "sealhost/sampler";

/** Tables that need time are made here: the host snapshots the guest after it. */
export function init(): i32 {
  return OK;
}

/** Forgets what `sample` remembered; this guest remembers nothing. */
export function reset(): i32 {
  return OK;
}

export function step(rows: u32): i32 {
  return eachRow(rows, sample);
}

function sample(): i32 {
  if (row.history_length == row.prompt_length)
    return answer(PASS, 0); // nothing is generated yet: the host draws from the logits as they are
  for (let id: u32 = 0; id < row.vocab_size; id++) {
    const logit = load<f32>(logits + 4 * id);
    if (logit != logit) store<f32>(logits + 4 * id, -Infinity); // NaN counts as -inf (clause 2.6); EDITED must hold none
  }
  const last = load<u32>(history + 4 * (row.history_length - 1));
  if (last < row.vocab_size) store<f32>(logits + 4 * last, -Infinity);
  return answer(EDITED, 0); // the host draws from what is left, with the request's parameters
}
