// sealhost plugin ABI, version 1, for guests in Rust without std: `../c/sealhost.h` field for field, and what all guests
// share. Builds with rustc 1.63 and later. The build sets SEALHOST_SDK to this folder:
//
//     #![no_std]
//     #![no_main]
//     #[macro_use]
//     #[allow(dead_code)] // a guest uses one half of it
//     mod sealhost {
//         include!(concat!(env!("SEALHOST_SDK"), "/sealhost.rs"));
//     }
//     struct Mine;
//     impl sealhost::Sampler for Mine {
//         fn step(&mut self, _step: &mut sealhost::Step) -> sealhost::Outcome { Ok(sealhost::Answer::Token(0)) }
//     }
//     sampler!(Mine = Mine);
//
// Clause numbers are those of plugins/README.md. Integers are little-endian, as wasm32 is.

pub const ABI_MINOR: u32 = 0;

// ---- status codes -----------------------------------------------------------------------------------------

pub const OK: i32 = 0;

/// Errors lie at or below `Unspecified`; clause 1.7.
#[repr(i32)]
#[derive(Clone, Copy)]
pub enum Status {
    Unspecified = -0x40000000,
    Config = -0x40000001,
    Unsupported = -0x40000002,
    Input = -0x40000003,
    Capacity = -0x40000004,
    Empty = -0x40000005,
}

/// A status and one sentence for the error area.
pub struct Failure(pub Status, pub &'static str);

// ---- sampler ----------------------------------------------------------------------------------------------

#[repr(C)]
pub struct SamplerLayout {
    pub size: u32,
    pub minor: u32,
    pub max_rows: u32,
    pub vocab_capacity: u32,
    pub logits: u32,
    pub logits_stride: u32,
    pub rows: u32,
    pub results: u32,
    pub history: u32,
    pub history_capacity: u32,
    pub bias: u32,
    pub bias_capacity: u32,
    pub config: u32,
    pub config_capacity: u32,
    pub error: u32,
    pub error_capacity: u32,
    pub candidates: u32,
    pub candidate_capacity: u32,
    pub answer: u32,
    pub answer_capacity: u32,
    pub log: u32,
    pub max_backtrack: u32,
}

pub const ROW_NEW: u32 = 1;
pub const ROW_ACCEPT: u32 = 2;
pub const ROW_SAMPLE: u32 = 4;
pub const ROW_FORK: u32 = 8;
pub const ROW_CLOSE: u32 = 16;

#[repr(C)]
pub struct Row {
    pub size: u32,
    pub slot: u32,
    pub flags: u32,
    pub vocab_size: u32,
    pub random: [u64; 2],
    pub prompt_length: u32,
    pub history_length: u32,
    pub bias_count: u32,
    pub config_length: u32,
    pub temperature: f32,
    pub top_k: i32,
    pub top_p: f32,
    pub min_p: f32,
    pub repetition_penalty: f32,
    pub presence_penalty: f32,
    pub frequency_penalty: f32,
    pub candidate_count: u32,
    pub parent: u32,
    pub taken_back: u32,
    pub appended: u32,
    pub backtrack_room: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bias {
    pub id: u32,
    pub bias: f32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Candidate {
    pub id: u32,
    pub logit: f32,
}

pub const TOKEN: u32 = 1;
pub const PASS: u32 = 2;
pub const EDITED: u32 = 3;
pub const MASK: u32 = 4;
pub const SPARSE: u32 = 5;
pub const STOP: u32 = 6;
pub const BACKTRACK: u32 = 7;
pub const FAST_FORWARD: u32 = 8;

#[repr(C)]
pub struct StepResult {
    pub size: u32,
    pub action: u32,
    pub token: u32,
    pub count: u32,
}

/// What the host writes before `init` for a guest with `vocabulary!`; offsets count from its beginning.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TokenTable {
    pub size: u32,
    pub count: u32,
    pub bos: i32,
    pub eos: i32,
    pub unknown: i32,
    pub types: u32,
    pub offsets: u32,
    pub bytes: u32,
}

// ---- tokenizer --------------------------------------------------------------------------------------------

#[repr(C)]
pub struct TokenizerLayout {
    pub size: u32,
    pub minor: u32,
    pub input: u32,
    pub input_capacity: u32,
    pub output: u32,
    pub output_capacity: u32,
    pub error: u32,
    pub error_capacity: u32,
}

pub const ADD_SPECIAL: u32 = 1;
pub const PARSE_SPECIAL: u32 = 2;

pub const VOCAB_MODEL: u32 = 1;
pub const VOCAB_PRE: u32 = 2;
pub const VOCAB_FLAGS: u32 = 3;
pub const VOCAB_TOKENS: u32 = 4;
pub const VOCAB_MERGES: u32 = 5;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct VocabFlags {
    pub bits: u32,
    pub bos: i32,
    pub eos: i32,
    pub unknown: i32,
}

pub const VOCAB_ADD_BOS: u32 = 1;
pub const VOCAB_ADD_EOS: u32 = 2;
pub const VOCAB_ADD_SPACE_PREFIX: u32 = 4;

pub const TYPE_NORMAL: u8 = 1;
pub const TYPE_UNKNOWN: u8 = 2;
pub const TYPE_CONTROL: u8 = 3;
pub const TYPE_USER_DEFINED: u8 = 4;
pub const TYPE_UNUSED: u8 = 5;
pub const TYPE_BYTE: u8 = 6;

// ---- what all guests share ----------------------------------------------------------------------------------

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    core::arch::wasm32::unreachable()
}

pub const ERROR_BYTES: usize = 512;

/// Writes a failure's sentence, cut to fit, and gives its status.
pub fn fail(area: &mut [u8; ERROR_BYTES], failure: Failure) -> i32 {
    let kept = failure.1.len().min(ERROR_BYTES - 1);
    area[..kept].copy_from_slice(&failure.1.as_bytes()[..kept]);
    area[kept] = 0;
    failure.0 as i32
}

pub fn offset<T>(pointer: *const T) -> u32 {
    pointer as usize as u32
}

pub const LOG_BYTES: usize = 4096;

#[repr(C)]
pub struct Log {
    pub written: u32,
    pub bytes: [u8; LOG_BYTES],
}

/// What one row of a step sees.
pub struct Step<'a> {
    pub row: &'a Row,
    /// Tier full: the row's logits. Write to them only to answer `Edited` (clause 2.9).
    pub logits: &'a mut [f32],
    /// Tier topk: the best candidates, best first. Change them to answer `Edited`.
    pub candidates: &'a mut [Candidate],
    /// Prompt ids, then generated ids.
    pub history: &'a [u32],
    pub bias: &'a [Bias],
    pub config: &'a [u8],
    words: &'a mut [u32],
    log: &'a mut Log,
}

impl Step<'_> {
    /// Generated ids alone.
    pub fn generated(&self) -> &[u32] {
        &self.history[self.row.prompt_length as usize..]
    }

    /// The uniform number of this step's draw, in [0, 1): clause 2.4.
    pub fn uniform(&self) -> f64 {
        (self.row.random[0] >> 11) as f64 / 9007199254740992.0
    }

    /// Text for you, in the log ring (clause 2.15).
    pub fn log(&mut self, text: &str) {
        for byte in text.bytes() {
            self.log.bytes[self.log.written as usize % LOG_BYTES] = byte;
            self.log.written = self.log.written.wrapping_add(1);
        }
    }

    /// A mask: `allow_none`, then `allow` for each id, then `Ok(Answer::Mask)`.
    pub fn allow_none(&mut self) {
        self.words[..(self.row.vocab_size as usize + 31) / 32].fill(0);
    }

    pub fn allow(&mut self, id: u32) {
        self.words[id as usize / 32] |= 1 << (id % 32);
    }

    /// Biases that the host adds to the logits.
    pub fn sparse(&mut self, added: &[Bias]) -> Answer {
        for (place, bias) in self.words.chunks_exact_mut(2).zip(added) {
            place[0] = bias.id;
            place[1] = bias.bias.to_bits();
        }
        Answer::Sparse(added.len() as u32)
    }

    /// Ids that are appended without another step.
    pub fn fast_forward(&mut self, ids: &[u32]) -> Answer {
        self.words[..ids.len()].copy_from_slice(ids);
        Answer::FastForward(ids.len() as u32)
    }

    /// Takes `off` ids back, at most `row.backtrack_room`, and appends others.
    pub fn backtrack(&mut self, off: u32, ids: &[u32]) -> Answer {
        self.words[..ids.len()].copy_from_slice(ids);
        Answer::Backtrack(off, ids.len() as u32)
    }
}

/// Those with numbers are made by the methods of `Step`, which fill the answer area.
pub enum Answer {
    Token(u32),
    Pass,
    Edited,
    Stop,
    Mask,
    Sparse(u32),
    FastForward(u32),
    Backtrack(u32, u32),
}

pub type Outcome = Result<Answer, Failure>;

pub trait Sampler {
    /// Tables that need time are made here: the host snapshots the guest after it.
    fn init(&mut self) -> Result<(), Failure> {
        Ok(())
    }
    /// Forgets what `step` remembered.
    fn reset(&mut self) -> Result<(), Failure> {
        Ok(())
    }
    /// What you keep for a slot starts from nothing (clause 2.13).
    fn began(&mut self, _slot: u32) {}
    /// What you keep for a slot starts as a copy of the parent's.
    fn forked(&mut self, _slot: u32, _parent: u32) {}
    fn ended(&mut self, _slot: u32) {}
    /// Called for every row that wants an answer.
    fn step(&mut self, step: &mut Step) -> Outcome;
}

/// Areas of a sampler; the host fills them. SEEN: logits of a slot, VOCAB in tier full, else 0. WORDS: VOCAB / 32.
#[repr(C, align(4096))]
pub struct SamplerAreas<
    const SEEN: usize,
    const CANDIDATES: usize,
    const ROWS: usize,
    const VOCAB: usize,
    const WORDS: usize,
    const HISTORY: usize,
    const BIASES: usize,
    const CONFIG: usize,
> {
    pub logits: [[f32; SEEN]; ROWS],
    pub rows: [Row; ROWS],
    pub results: [StepResult; ROWS],
    pub history: [[u32; HISTORY]; ROWS],
    pub candidates: [[Candidate; CANDIDATES]; ROWS],
    pub answer: [[u32; WORDS]; ROWS],
    pub bias: [Bias; BIASES],
    pub config: [u8; CONFIG],
    pub error: [u8; ERROR_BYTES],
    pub log: Log,
    pub layout: SamplerLayout,
}

impl<
        const SEEN: usize,
        const CANDIDATES: usize,
        const ROWS: usize,
        const VOCAB: usize,
        const WORDS: usize,
        const HISTORY: usize,
        const BIASES: usize,
        const CONFIG: usize,
    > SamplerAreas<SEEN, CANDIDATES, ROWS, VOCAB, WORDS, HISTORY, BIASES, CONFIG>
{
    const NO_ROW: Row = Row {
        size: 0,
        slot: 0,
        flags: 0,
        vocab_size: 0,
        random: [0; 2],
        prompt_length: 0,
        history_length: 0,
        bias_count: 0,
        config_length: 0,
        temperature: 0.0,
        top_k: 0,
        top_p: 0.0,
        min_p: 0.0,
        repetition_penalty: 0.0,
        presence_penalty: 0.0,
        frequency_penalty: 0.0,
        candidate_count: 0,
        parent: 0,
        taken_back: 0,
        appended: 0,
        backtrack_room: 0,
    };
    const NO_RESULT: StepResult = StepResult { size: 0, action: 0, token: 0, count: 0 };
    const NO_LAYOUT: SamplerLayout = SamplerLayout {
        size: 0,
        minor: 0,
        max_rows: 0,
        vocab_capacity: 0,
        logits: 0,
        logits_stride: 0,
        rows: 0,
        results: 0,
        history: 0,
        history_capacity: 0,
        bias: 0,
        bias_capacity: 0,
        config: 0,
        config_capacity: 0,
        error: 0,
        error_capacity: 0,
        candidates: 0,
        candidate_capacity: 0,
        answer: 0,
        answer_capacity: 0,
        log: 0,
        max_backtrack: 0,
    };

    /// All zero, so that it takes no room in the module.
    pub const ZERO: Self = SamplerAreas {
        logits: [[0.0; SEEN]; ROWS],
        rows: [Self::NO_ROW; ROWS],
        results: [Self::NO_RESULT; ROWS],
        history: [[0; HISTORY]; ROWS],
        candidates: [[Candidate { id: 0, logit: 0.0 }; CANDIDATES]; ROWS],
        answer: [[0; WORDS]; ROWS],
        bias: [Bias { id: 0, bias: 0.0 }; BIASES],
        config: [0; CONFIG],
        error: [0; ERROR_BYTES],
        log: Log { written: 0, bytes: [0; LOG_BYTES] },
        layout: Self::NO_LAYOUT,
    };

    pub fn publish(&mut self, max_backtrack: u32) -> u32 {
        self.layout = SamplerLayout {
            size: core::mem::size_of::<SamplerLayout>() as u32,
            minor: ABI_MINOR,
            max_rows: ROWS as u32,
            vocab_capacity: VOCAB as u32,
            logits: if SEEN > 0 { offset(&self.logits) } else { 0 },
            logits_stride: 4 * SEEN as u32,
            rows: offset(&self.rows),
            results: offset(&self.results),
            history: offset(&self.history),
            history_capacity: HISTORY as u32,
            bias: offset(&self.bias),
            bias_capacity: BIASES as u32,
            config: offset(&self.config),
            config_capacity: CONFIG as u32,
            error: offset(&self.error),
            error_capacity: ERROR_BYTES as u32,
            candidates: if CANDIDATES > 0 { offset(&self.candidates) } else { 0 },
            candidate_capacity: CANDIDATES as u32,
            answer: offset(&self.answer),
            answer_capacity: 4 * WORDS as u32,
            log: offset(&self.log),
            max_backtrack,
        };
        offset(&self.layout)
    }

    pub fn step<Guest: Sampler>(&mut self, guest: &mut Guest, rows: u32) -> i32 {
        if rows as usize <= ROWS {
            for index in 0..rows as usize {
                match self.one(guest, index) {
                    Ok(()) => (),
                    Err(failure) => return fail(&mut self.error, failure),
                }
            }
            return OK;
        }
        fail(&mut self.error, Failure(Status::Capacity, "step: expected rows within this sampler's capacities"))
    }

    fn one<Guest: Sampler>(&mut self, guest: &mut Guest, index: usize) -> Result<(), Failure> {
        let row = &self.rows[index];
        let (slot, vocab, history) = (row.slot as usize, row.vocab_size as usize, row.history_length as usize);
        let (biases, config, candidates) =
            (row.bias_count as usize, row.config_length as usize, row.candidate_count as usize);
        let fits = slot < ROWS && vocab <= VOCAB && history <= HISTORY && biases <= BIASES && config <= CONFIG;
        if !fits || candidates > CANDIDATES || row.prompt_length > row.history_length {
            return Err(Failure(Status::Capacity, "step: expected rows within this sampler's capacities"));
        }
        if row.flags & ROW_NEW != 0 {
            guest.began(row.slot);
        }
        if row.flags & ROW_FORK != 0 {
            guest.forked(row.slot, row.parent);
        }
        if row.flags & ROW_CLOSE != 0 {
            guest.ended(row.slot);
        }
        if row.flags & ROW_SAMPLE == 0 {
            return Ok(());
        }
        let mut step = Step {
            row,
            logits: &mut self.logits[slot][..vocab.min(SEEN)],
            candidates: &mut self.candidates[slot][..candidates],
            history: &self.history[slot][..history],
            bias: &self.bias[..biases],
            config: &self.config[..config],
            words: &mut self.answer[slot],
            log: &mut self.log,
        };
        let (action, token, count) = match guest.step(&mut step)? {
            Answer::Token(id) => (TOKEN, id, 0),
            Answer::Pass => (PASS, 0, 0),
            Answer::Edited => (EDITED, 0, 0),
            Answer::Stop => (STOP, 0, 0),
            Answer::Mask => (MASK, 0, 0),
            Answer::Sparse(count) => (SPARSE, 0, count),
            Answer::FastForward(count) => (FAST_FORWARD, 0, count),
            Answer::Backtrack(off, count) => (BACKTRACK, off, count),
        };
        self.results[index] = StepResult { size: core::mem::size_of::<StepResult>() as u32, action, token, count };
        Ok(())
    }

    pub fn finish(&mut self, done: Result<(), Failure>) -> i32 {
        match done {
            Ok(()) => OK,
            Err(failure) => fail(&mut self.error, failure),
        }
    }
}

/// Exports a sampler: `sampler!(Type = constant expression)`. Of tier topk or mask, or with more than one slot or
/// backtracking: `sampler!(Type = expression, seen: S, candidates: K, rows: R, max_backtrack: B)`, where S is 263168 in tier
/// full and else 0, and K is that of topk and else 0.
#[allow(unused_macros)]
macro_rules! sampler {
    ($guest:ty = $new:expr) => {
        sampler!($guest = $new, seen: 263168, candidates: 0, rows: 1, max_backtrack: 0);
    };
    ($guest:ty = $new:expr, seen: $seen:expr, candidates: $candidates:expr, rows: $rows:expr, max_backtrack: $back:expr) => {
        type Areas = $crate::sealhost::SamplerAreas<{ $seen }, { $candidates }, { $rows }, 263168, 8224, 131072, 1024, 16384>;
        static mut GUEST: $guest = $new;
        static mut AREAS: Areas = Areas::ZERO;

        // one thread, and the host calls one export at a time
        fn areas() -> &'static mut Areas {
            unsafe { &mut *core::ptr::addr_of_mut!(AREAS) }
        }

        fn guest() -> &'static mut $guest {
            unsafe { &mut *core::ptr::addr_of_mut!(GUEST) }
        }

        #[no_mangle]
        pub extern "C" fn sealhost_sampler_v1() -> i32 {
            $crate::sealhost::ABI_MINOR as i32
        }

        #[no_mangle]
        pub extern "C" fn layout() -> u32 {
            areas().publish($back)
        }

        #[no_mangle]
        pub extern "C" fn init() -> i32 {
            areas().finish($crate::sealhost::Sampler::init(guest()))
        }

        #[no_mangle]
        pub extern "C" fn reset() -> i32 {
            areas().finish($crate::sealhost::Sampler::reset(guest()))
        }

        #[no_mangle]
        pub extern "C" fn step(rows: u32) -> i32 {
            areas().step(guest(), rows)
        }
    };
}

/// Room for the tokens' texts; made by `vocabulary!`.
#[repr(C, align(8))]
pub struct Words<const SIZE: usize> {
    pub bytes: [u8; SIZE],
}

impl<const SIZE: usize> Words<SIZE> {
    /// Number of tokens, BOS, EOS; there from `init` on.
    pub fn table(&self) -> TokenTable {
        // written by the host, 8-aligned, and any bytes are numbers
        unsafe { *self.bytes.as_ptr().cast::<TokenTable>() }
    }

    /// The bytes that an id below `table().count` spells; control tokens spell none.
    pub fn text(&self, id: u32) -> &[u8] {
        let table = self.table();
        let at = |index: u32| load(&self.bytes, (table.offsets + 4 * index) as usize) as usize;
        &self.bytes[table.bytes as usize..][at(id)..at(id + 1)]
    }

    pub fn type_of(&self, id: u32) -> u8 {
        self.bytes[(self.table().types + id) as usize].max(TYPE_NORMAL)
    }
}

/// Asks the host for the tokens' texts: `vocabulary!(8388608)` beside `sampler!`; then `words().text(id)`.
#[allow(unused_macros)]
macro_rules! vocabulary {
    ($size:expr) => {
        static mut WORDS: $crate::sealhost::Words<{ $size }> = $crate::sealhost::Words { bytes: [0; $size] };

        fn words() -> &'static $crate::sealhost::Words<{ $size }> {
            unsafe { &*core::ptr::addr_of!(WORDS) }
        }

        #[no_mangle]
        pub extern "C" fn vocabulary(size: u32) -> u32 {
            if size as usize <= $size { $crate::sealhost::offset(words()) } else { 0 }
        }
    };
}

/// A column of texts in the stream; nothing in it is aligned.
#[derive(Clone, Copy)]
pub struct Column<'a> {
    count: u32,
    offsets: &'a [u8],
    bytes: &'a [u8],
}

fn load(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl<'a> Column<'a> {
    pub const EMPTY: Column<'static> = Column { count: 0, offsets: &[0; 4], bytes: &[] };

    pub fn count(&self) -> u32 {
        self.count
    }

    fn at(&self, index: u32) -> usize {
        load(self.offsets, 4 * index as usize) as usize
    }

    pub fn entry(&self, index: u32) -> &'a [u8] {
        &self.bytes[self.at(index)..self.at(index + 1)]
    }

    /// Clauses 4.3 and 4.7. Texts that have been spelled in place leave room at the end of the section.
    fn read(payload: &'a [u8], count: u32, spelled: bool) -> Option<Column<'a>> {
        if payload.len() / 4 <= count as usize {
            return None;
        }
        let (offsets, bytes) = payload.split_at(4 * (count as usize + 1));
        let column = Column { count, offsets, bytes };
        let mut last = 0;
        for index in 0..=count {
            let next = column.at(index);
            if next < last || (index == 0 && next != 0) {
                return None;
            }
            last = next;
        }
        (last == bytes.len() || (spelled && last < bytes.len())).then(|| column)
    }
}

/// What the stream says; texts of byte-level vocabularies (model "gpt2") are the bytes that they spell. Of another model
/// they stand as the GGUF spells them, so refuse in `ready` what you do not know (clause 3.8).
#[derive(Clone, Copy)]
pub struct Vocabulary<'a> {
    pub model: &'a [u8],
    pub pre: &'a [u8],
    pub flags: VocabFlags,
    types: &'a [u8],
    pub tokens: Column<'a>,
    pub merges: Column<'a>,
}

impl<'a> Vocabulary<'a> {
    pub const EMPTY: Vocabulary<'static> = Vocabulary {
        model: &[],
        pre: &[],
        flags: VocabFlags { bits: 0, bos: -1, eos: -1, unknown: -1 },
        types: &[],
        tokens: Column::EMPTY,
        merges: Column::EMPTY,
    };

    /// Clause 4.4: 0 counts as normal.
    pub fn type_of(&self, id: u32) -> u8 {
        self.types[id as usize].max(TYPE_NORMAL)
    }

    pub fn is_byte_level(&self) -> bool {
        self.model == b"gpt2"
    }

    /// BOS and EOS where `add_special` puts them.
    pub fn added(&self, flags: u32) -> (Option<u32>, Option<u32>) {
        let wanted = |bit: u32, id: i32| flags & ADD_SPECIAL != 0 && self.flags.bits & bit != 0 && id >= 0;
        let bos = wanted(VOCAB_ADD_BOS, self.flags.bos).then(|| self.flags.bos as u32);
        let eos = wanted(VOCAB_ADD_EOS, self.flags.eos).then(|| self.flags.eos as u32);
        (bos, eos)
    }

    /// Clauses 4.1 and 4.7.
    fn read(stream: &'a [u8], spelled: bool) -> Option<Vocabulary<'a>> {
        let mut made = Vocabulary { ..Vocabulary::EMPTY };
        let (mut rest, mut last, mut seen) = (stream, 0, 0);
        while !rest.is_empty() {
            if rest.len() < 8 {
                return None;
            }
            let (tag, length) = (load(rest, 0), load(rest, 4) as usize);
            if tag <= last || length > rest.len() - 8 {
                return None;
            }
            made.section(tag, &rest[8..8 + length], spelled)?;
            seen += (tag <= VOCAB_MERGES) as u32;
            last = tag;
            rest = &rest[8 + length..];
        }
        let count = made.tokens.count as i64;
        let whole = seen == VOCAB_MERGES && (made.flags.bos as i64) < count && (made.flags.eos as i64) < count;
        whole.then(|| made)
    }

    fn section(&mut self, tag: u32, payload: &'a [u8], spelled: bool) -> Option<()> {
        let count = if payload.len() >= 4 { load(payload, 0) } else { 0 };
        match tag {
            VOCAB_MODEL => self.model = payload,
            VOCAB_PRE => self.pre = payload,
            VOCAB_FLAGS => {
                let word = |at: usize| if payload.len() >= 16 { Some(load(payload, at)) } else { None };
                let (bos, eos, unknown) = (word(4)? as i32, word(8)? as i32, word(12)? as i32);
                self.flags = VocabFlags { bits: word(0)?, bos, eos, unknown };
            }
            VOCAB_TOKENS => {
                // types, scores, offsets, bytes
                if payload.len() < 4 || count as usize > (payload.len() - 4) / 9 {
                    return None;
                }
                self.types = &payload[4..4 + count as usize];
                self.tokens = Column::read(&payload[4 + 5 * count as usize..], count, spelled)?;
            }
            VOCAB_MERGES => {
                if payload.len() < 4 {
                    return None;
                }
                self.merges = Column::read(&payload[4..], count, false)?;
            }
            _ => {} // clause 4.1: of a later version
        }
        Some(())
    }
}

/// The byte that a letter of GPT-2's alphabet spells.
fn spelled_byte(letter: u32) -> Option<u8> {
    match letter {
        33..=126 | 161..=172 | 174..=255 => Some(letter as u8),
        256..=288 => Some((letter - 256) as u8), // the bytes that are left, in order: 0..32, 127..160, 173
        289..=322 => Some((letter - 162) as u8),
        323 => Some(173),
        _ => None,
    }
}

/// Turns one text into the bytes that it spells, in place; None: it stands for itself.
fn spell(text: &mut [u8]) -> Option<usize> {
    let mut made = 0;
    for write in [false, true] {
        // first look, then write: a text outside the alphabet stays as it is
        made = 0;
        let mut i = 0;
        while i < text.len() {
            let mut letter = text[i] as u32;
            if letter >= 0x80 {
                // the alphabet ends at U+0143: two bytes of UTF-8
                if !(0xC2..=0xDF).contains(&letter) || i + 1 == text.len() || text[i + 1] & 0xC0 != 0x80 {
                    return None;
                }
                i += 1;
                letter = (letter & 0x1F) << 6 | (text[i] & 0x3F) as u32;
            }
            let byte = spelled_byte(letter)?;
            if write {
                text[made] = byte;
            }
            made += 1;
            i += 1;
        }
    }
    Some(made)
}

/// Clause 4.6, in place: what is spelled is never longer than its spelling. The stream has been read before.
fn spell_all(stream: &mut [u8]) {
    let mut at = 0;
    while load(stream, at) != VOCAB_TOKENS {
        at += 8 + load(stream, at + 4) as usize;
    }
    let count = load(stream, at + 8) as usize;
    let types = at + 12;
    let offsets = types + 5 * count;
    let bytes = offsets + 4 * (count + 1);
    let (mut end, mut start) = (0, 0);
    for id in 0..count {
        let next = load(stream, offsets + 4 * (id + 1)) as usize;
        let spelled = matches!(stream[types + id].max(TYPE_NORMAL), TYPE_NORMAL | TYPE_UNUSED | TYPE_BYTE);
        let text = &mut stream[bytes + start..bytes + next];
        let whole = text.len();
        let kept = if spelled { spell(text).unwrap_or(whole) } else { whole };
        stream.copy_within(bytes + start..bytes + start + kept, bytes + end);
        end += kept;
        start = next;
        stream[offsets + 4 * (id + 1)..][..4].copy_from_slice(&(end as u32).to_le_bytes());
    }
}

pub trait Tokenizer {
    /// Called once, when the vocabulary is complete: build your tables.
    fn ready(&mut self, vocabulary: &Vocabulary) -> Result<(), Failure>;
    /// Writes ids and gives their number.
    fn encode(&mut self, vocabulary: &Vocabulary, text: &[u8], flags: u32, ids: &mut [u32]) -> Result<usize, Failure>;
}

#[repr(C, align(8))]
pub struct TokenizerAreas<const INPUT: usize, const IDS: usize, const STREAM: usize> {
    pub input: [u8; INPUT],
    pub output: [u32; IDS],
    pub stream: [u8; STREAM],
    pub received: usize,
    pub finished: bool,
    pub error: [u8; ERROR_BYTES],
    pub layout: TokenizerLayout,
    pub vocabulary: Option<Vocabulary<'static>>,
}

impl<const INPUT: usize, const IDS: usize, const STREAM: usize> TokenizerAreas<INPUT, IDS, STREAM> {
    /// All zero, so that it takes no room in the module.
    pub const ZERO: Self = TokenizerAreas {
        input: [0; INPUT],
        output: [0; IDS],
        stream: [0; STREAM],
        received: 0,
        finished: false,
        error: [0; ERROR_BYTES],
        layout: TokenizerLayout {
            size: 0,
            minor: 0,
            input: 0,
            input_capacity: 0,
            output: 0,
            output_capacity: 0,
            error: 0,
            error_capacity: 0,
        },
        vocabulary: None,
    };

    pub fn publish(&mut self) -> u32 {
        self.layout = TokenizerLayout {
            size: core::mem::size_of::<TokenizerLayout>() as u32,
            minor: ABI_MINOR,
            input: offset(&self.input),
            input_capacity: INPUT as u32,
            output: offset(&self.output),
            output_capacity: 4 * IDS as u32,
            error: offset(&self.error),
            error_capacity: ERROR_BYTES as u32,
        };
        offset(&self.layout)
    }

    pub fn load<Guest: Tokenizer>(&mut self, guest: &mut Guest, length: u32, last: u32) -> i32 {
        match self.take(guest, length as usize, last != 0) {
            Ok(()) => OK,
            Err(failure) => fail(&mut self.error, failure),
        }
    }

    fn take<Guest: Tokenizer>(&mut self, guest: &mut Guest, length: usize, last: bool) -> Result<(), Failure> {
        if self.finished || length > INPUT {
            return Err(Failure(Status::Input, "load: expected pieces within the input area, once"));
        }
        if length > STREAM - self.received {
            return Err(Failure(Status::Capacity, "load: the vocabulary stream does not fit into this guest's memory"));
        }
        self.stream[self.received..self.received + length].copy_from_slice(&self.input[..length]);
        self.received += length;
        self.finished = last;
        if !last {
            return Ok(());
        }
        let malformed = || Failure(Status::Input, "load: the vocabulary stream is malformed");
        let read = Vocabulary::read(&self.stream[..self.received], false).ok_or_else(malformed)?;
        let byte_level = read.is_byte_level();
        if byte_level {
            spell_all(&mut self.stream[..self.received]);
        }
        // the areas are static, and from here on nobody writes to the stream
        let stream: &'static [u8] = unsafe { core::slice::from_raw_parts(self.stream.as_ptr(), self.received) };
        let vocabulary = Vocabulary::read(stream, byte_level).ok_or_else(malformed)?;
        self.vocabulary = Some(vocabulary);
        guest.ready(&vocabulary)
    }

    pub fn encode<Guest: Tokenizer>(&mut self, guest: &mut Guest, length: u32, flags: u32) -> i32 {
        let refused = Failure(Status::Input, "encode: expected a loaded vocabulary and a text within the input area");
        let vocabulary = match self.vocabulary {
            Some(vocabulary) if length as usize <= INPUT => vocabulary,
            _ => return fail(&mut self.error, refused),
        };
        match guest.encode(&vocabulary, &self.input[..length as usize], flags, &mut self.output) {
            Ok(count) => count as i32,
            Err(failure) => fail(&mut self.error, failure),
        }
    }

    /// Clause 3.7.
    pub fn token_bytes(&mut self, first: u32, count: u32) -> i32 {
        let refused = Failure(Status::Input, "token_bytes: the ids are not in the vocabulary");
        let vocabulary = match self.vocabulary {
            Some(vocabulary) => vocabulary,
            None => return fail(&mut self.error, refused),
        };
        let tokens = vocabulary.tokens;
        if first > tokens.count || count > tokens.count - first {
            return fail(&mut self.error, refused);
        }
        let given = |id: u32| if vocabulary.type_of(id) == TYPE_CONTROL { &[][..] } else { tokens.entry(id) };
        let needed = 4 * count as usize + (first..first + count).map(|id| given(id).len()).sum::<usize>();
        if needed > 4 * IDS {
            return -(needed as i32);
        }
        let (lengths, rest) = self.output.split_at_mut(count as usize);
        // the rest of the output as bytes: any bytes are a u32
        let bytes = unsafe { core::slice::from_raw_parts_mut(rest.as_mut_ptr().cast::<u8>(), 4 * rest.len()) };
        let mut end = 0;
        for (length, id) in lengths.iter_mut().zip(first..) {
            let text = given(id);
            *length = text.len() as u32;
            bytes[end..end + text.len()].copy_from_slice(text);
            end += text.len();
        }
        needed as i32
    }
}

/// Exports a tokenizer: `tokenizer!(Type = constant expression)`.
#[allow(unused_macros)]
macro_rules! tokenizer {
    ($guest:ty = $new:expr) => {
        tokenizer!($guest = $new, input: 1 << 20, ids: (1 << 20) + 2, stream: 24 << 20);
    };
    ($guest:ty = $new:expr, input: $input:expr, ids: $ids:expr, stream: $stream:expr) => {
        static mut GUEST: $guest = $new;
        static mut AREAS: $crate::sealhost::TokenizerAreas<{ $input }, { $ids }, { $stream }> =
            $crate::sealhost::TokenizerAreas::ZERO;

        // one thread, and the host calls one export at a time
        fn areas() -> &'static mut $crate::sealhost::TokenizerAreas<{ $input }, { $ids }, { $stream }> {
            unsafe { &mut *core::ptr::addr_of_mut!(AREAS) }
        }

        fn guest() -> &'static mut $guest {
            unsafe { &mut *core::ptr::addr_of_mut!(GUEST) }
        }

        #[no_mangle]
        pub extern "C" fn sealhost_tokenizer_v1() -> i32 {
            $crate::sealhost::ABI_MINOR as i32
        }

        #[no_mangle]
        pub extern "C" fn layout() -> u32 {
            areas().publish()
        }

        #[no_mangle]
        pub extern "C" fn load(length: u32, last: u32) -> i32 {
            areas().load(guest(), length, last)
        }

        #[no_mangle]
        pub extern "C" fn encode(length: u32, flags: u32) -> i32 {
            areas().encode(guest(), length, flags)
        }

        #[no_mangle]
        pub extern "C" fn token_bytes(first: u32, count: u32) -> i32 {
            areas().token_bytes(first, count)
        }
    };
}
