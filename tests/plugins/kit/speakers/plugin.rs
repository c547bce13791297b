//! Says what the first letter of its configuration asks for.

#![no_std]
#![no_main]

#[macro_use]
#[allow(dead_code)]
mod sealhost {
    include!(concat!(env!("SEALHOST_SDK"), "/sealhost.rs"));
}
use sealhost::{Answer, Bias, Outcome, Sampler, Step};

struct Guest;

impl Sampler for Guest {
    fn step(&mut self, step: &mut Step) -> Outcome {
        Ok(match step.config[0] {
            b'm' => {
                step.allow_none();
                step.allow(1);
                step.allow(40);
                Answer::Mask
            }
            b's' => step.sparse(&[Bias { id: 3, bias: 100.0 }, Bias { id: 4, bias: f32::NEG_INFINITY }]),
            b'f' => step.fast_forward(&[5, 6, 7]),
            b'b' => step.backtrack(2, &[9]),
            b'l' => {
                step.log("hello\n");
                Answer::Pass
            }
            b'e' => {
                step.candidates[0].logit = f32::NEG_INFINITY;
                Answer::Edited
            }
            b'v' => {
                // the text of the last token of the prompt, byte by byte, then its type, the number of tokens, and EOS
                let id = step.history[step.row.prompt_length as usize - 1];
                let mut ids = [0u32; 16];
                let text = words().text(id);
                for (place, byte) in ids.iter_mut().zip(text) {
                    *place = *byte as u32;
                }
                ids[text.len()] = words().type_of(id) as u32;
                ids[text.len() + 1] = words().table().count;
                ids[text.len() + 2] = words().table().eos as u32;
                step.fast_forward(&ids[..text.len() + 3])
            }
            _ => Answer::Stop,
        })
    }
}

sampler!(Guest = Guest, TIER);
vocabulary!(1 << 20);
