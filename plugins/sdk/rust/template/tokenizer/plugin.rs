//! @NAME@: the longest token that fits, from left to right, for byte-level vocabularies (model "gpt2").
//!
//! It spells every text, but not with the ids that a model was trained on: change `encode`. `vocabulary` holds tokens,
//! merges and flags.

#![no_std]
#![no_main]

#[macro_use]
#[allow(dead_code)] // a guest uses one half of it
mod sealhost {
    include!(concat!(env!("SEALHOST_SDK"), "/sealhost.rs"));
}
use sealhost::*;

/// Slots of each table; twice the largest vocabulary, so that a search stays short.
const SLOTS: usize = 1 << 20;

/// Ids + 1, by the bytes that the ids stand for.
struct Table {
    ids: [u32; SLOTS],
    longest: usize,
}

impl Table {
    const EMPTY: Table = Table { ids: [0; SLOTS], longest: 0 };

    /// The slot of these bytes, or the free one where they belong.
    fn slot(&self, vocabulary: &Vocabulary, hash: u32, bytes: &[u8]) -> usize {
        let mut at = (hash ^ hash >> 15) as usize % SLOTS;
        while self.ids[at] != 0 && vocabulary.tokens.entry(self.ids[at] - 1) != bytes {
            at = (at + 1) % SLOTS;
        }
        at
    }
}

const HASH_OF_NOTHING: u32 = 2166136261;

/// FNV-1a, which grows byte by byte along the text.
fn hash_more(hash: u32, byte: u8) -> u32 {
    (hash ^ byte as u32).wrapping_mul(16777619)
}

struct Guest {
    plain: Table,
    special: Table,
}

impl Guest {
    /// Id and length of the longest special token at the front of the text, else of the longest plain one.
    fn longest(&self, vocabulary: &Vocabulary, text: &[u8], controls: bool) -> Option<(u32, usize)> {
        let (mut best, mut best_special, mut hash) = (None, None, HASH_OF_NOTHING);
        let most = self.plain.longest.max(self.special.longest).min(text.len());
        for length in 1..=most {
            hash = hash_more(hash, text[length - 1]);
            let id = self.plain.ids[self.plain.slot(vocabulary, hash, &text[..length])];
            if id != 0 {
                best = Some((id - 1, length));
            }
            let other = self.special.ids[self.special.slot(vocabulary, hash, &text[..length])];
            if other != 0 && (controls || vocabulary.type_of(other - 1) != TYPE_CONTROL) {
                best_special = Some((other - 1, length)); // clause 3.4
            }
        }
        best_special.or(best)
    }
}

impl Tokenizer for Guest {
    fn ready(&mut self, vocabulary: &Vocabulary) -> Result<(), Failure> {
        if !vocabulary.is_byte_level() {
            return Err(Failure(Status::Unsupported, "load: expected tokenizer.ggml.model gpt2, got another"));
        }
        if vocabulary.tokens.count() as usize > SLOTS / 2 {
            return Err(Failure(Status::Capacity, "load: expected at most 524288 tokens, got more"));
        }
        for id in 0..vocabulary.tokens.count() {
            let text = vocabulary.tokens.entry(id);
            let table = match vocabulary.type_of(id) {
                TYPE_UNKNOWN | TYPE_UNUSED => continue, // clause 3.5: never from text
                TYPE_CONTROL | TYPE_USER_DEFINED => &mut self.special,
                _ => &mut self.plain,
            };
            if text.is_empty() {
                continue;
            }
            let hash = text.iter().fold(HASH_OF_NOTHING, |hash, byte| hash_more(hash, *byte));
            let slot = table.slot(vocabulary, hash, text);
            if table.ids[slot] == 0 {
                table.ids[slot] = id + 1;
            }
            table.longest = table.longest.max(text.len());
        }
        Ok(())
    }

    fn encode(&mut self, vocabulary: &Vocabulary, text: &[u8], flags: u32, ids: &mut [u32]) -> Result<usize, Failure> {
        let (bos, eos) = vocabulary.added(flags);
        let (mut count, mut at) = (0, 0);
        let mut put = |count: &mut usize, id: u32| {
            ids[*count] = id;
            *count += 1;
        };
        let mut last = None;
        while at < text.len() {
            let (id, length) = match self.longest(vocabulary, &text[at..], flags & PARSE_SPECIAL != 0) {
                Some(found) => found,
                None => {
                    at += 1; // clause 3.3: a byte of which the vocabulary has no token is left out
                    continue;
                }
            };
            at += length;
            match bos {
                Some(bos) if count == 0 && id != bos => put(&mut count, bos), // clause 3.6: never doubled
                _ => {}
            }
            put(&mut count, id);
            last = Some(id);
        }
        match bos {
            Some(bos) if count == 0 => put(&mut count, bos),
            _ => {}
        }
        match eos {
            Some(eos) if last != Some(eos) => put(&mut count, eos),
            _ => {}
        }
        Ok(count)
    }
}

tokenizer!(Guest = Guest { plain: Table::EMPTY, special: Table::EMPTY });
