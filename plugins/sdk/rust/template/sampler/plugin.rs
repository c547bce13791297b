//! @NAME@: forbids the last token, so that none comes twice in a row, and leaves the drawing to the host.
//!
//! Change `step`. What it gets: `step.row` (parameters, lengths, randomness), logits, history, biases, configuration.

#![no_std]
#![no_main]

#[macro_use]
#[allow(dead_code)] // a guest uses one half of it
mod sealhost {
    include!(concat!(env!("SEALHOST_SDK"), "/sealhost.rs"));
}
use sealhost::{Answer, Outcome, Sampler, Step};

/// What the guest remembers between steps goes here; then write `reset`, too.
struct Guest;

impl Sampler for Guest {
    fn step(&mut self, step: &mut Step) -> Outcome {
        let last = match step.generated().last() {
            None => return Ok(Answer::Pass), // nothing is generated yet: the host draws from the logits as they are
            Some(last) => *last as usize,
        };
        for logit in step.logits.iter_mut() {
            if logit.is_nan() {
                *logit = f32::NEG_INFINITY; // NaN counts as -inf (clause 2.6), and `Edited` must hold none
            }
        }
        if let Some(logit) = step.logits.get_mut(last) {
            *logit = f32::NEG_INFINITY;
        }
        Ok(Answer::Edited) // the host draws from what is left, with the request's parameters
    }
}

sampler!(Guest = Guest);
