//! sealhost plugin ABI, version 1, for guests in Zig: `../c/sealhost.h` field for field, and what all guests share.
//!
//! A sampler:
//!
//!     const sealhost = @import("sealhost");
//!     const sampler = sealhost.Sampler(.{}, @This()); // calls your `init`, `step` and `reset`
//!     comptime { _ = sampler; }
//!     pub fn init() i32 { return sealhost.ok; }
//!     pub fn reset() i32 { return sealhost.ok; }
//!     pub fn step() i32 { return sampler.answer(.token, 0); }
//!
//! Clause numbers are those of plugins/README.md. Integers are little-endian, as wasm32 is.

pub const abi_minor: u32 = 0;

// ---- status codes ---------------------------------------------------------------------------------------

pub const ok: i32 = 0;

/// Errors lie at or below `unspecified`; clause 1.7.
pub const Error = enum(i32) {
    unspecified = -0x40000000,
    config = -0x40000001,
    unsupported = -0x40000002,
    input = -0x40000003,
    capacity = -0x40000004,
    empty = -0x40000005,
};

// ---- sampler --------------------------------------------------------------------------------------------

pub const SamplerLayout = extern struct {
    size: u32 = @sizeOf(SamplerLayout),
    minor: u32 = abi_minor,
    max_rows: u32,
    vocab_capacity: u32,
    logits: u32,
    logits_stride: u32,
    rows: u32,
    results: u32,
    history: u32,
    history_capacity: u32,
    bias: u32,
    bias_capacity: u32,
    config: u32,
    config_capacity: u32,
    @"error": u32,
    error_capacity: u32,
    candidates: u32 = 0,
    candidate_capacity: u32 = 0,
    answer: u32 = 0,
    answer_capacity: u32 = 0,
    log: u32 = 0,
    max_backtrack: u32 = 0,
};

pub const row_new: u32 = 1;
pub const row_accept: u32 = 2;
pub const row_sample: u32 = 4;
pub const row_fork: u32 = 8;
pub const row_close: u32 = 16;

pub const Row = extern struct {
    size: u32,
    slot: u32,
    flags: u32,
    vocab_size: u32,
    random: [2]u64,
    prompt_length: u32,
    history_length: u32,
    bias_count: u32,
    config_length: u32,
    temperature: f32,
    top_k: i32,
    top_p: f32,
    min_p: f32,
    repetition_penalty: f32,
    presence_penalty: f32,
    frequency_penalty: f32,
    candidate_count: u32,
    parent: u32,
    taken_back: u32,
    appended: u32,
    backtrack_room: u32,
};

pub const Bias = extern struct {
    id: u32,
    bias: f32,
};

pub const Candidate = extern struct {
    id: u32,
    logit: f32,
};

pub const Action = enum(u32) {
    none = 0,
    token = 1,
    pass = 2,
    edited = 3,
    mask = 4,
    sparse = 5,
    stop = 6,
    backtrack = 7,
    fast_forward = 8,
};

pub const Result = extern struct {
    size: u32,
    action: Action,
    token: u32,
    count: u32,
};

/// What the host writes before `init` for a guest with `vocabulary` in its capacities; offsets count from its beginning.
pub const TokenTable = extern struct {
    size: u32,
    count: u32,
    bos: i32,
    eos: i32,
    unknown: i32,
    types: u32,
    offsets: u32,
    bytes: u32,
};

// ---- tokenizer ------------------------------------------------------------------------------------------

pub const TokenizerLayout = extern struct {
    size: u32 = @sizeOf(TokenizerLayout),
    minor: u32 = abi_minor,
    input: u32,
    input_capacity: u32,
    output: u32,
    output_capacity: u32,
    @"error": u32,
    error_capacity: u32,
};

pub const add_special: u32 = 1;
pub const parse_special: u32 = 2;

/// Sections of the vocabulary stream; chapter 4.
pub const Tag = struct {
    pub const model: u32 = 1;
    pub const pre: u32 = 2;
    pub const flags: u32 = 3;
    pub const tokens: u32 = 4;
    pub const merges: u32 = 5;
};

pub const VocabFlags = extern struct {
    bits: u32,
    bos: i32,
    eos: i32,
    unknown: i32,
};

pub const add_bos: u32 = 1;
pub const add_eos: u32 = 2;
pub const add_space_prefix: u32 = 4;

pub const TokenType = enum(u8) {
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6,
    _,
};

// ---- what all guests share --------------------------------------------------------------------------------

const error_bytes = 512;
var error_area: [error_bytes:0]u8 = @splat(0);

/// One sentence and its status, for `return fail(...)`; what does not fit is cut.
pub fn fail(status: Error, text: []const u8) i32 {
    const kept = @min(text.len, error_bytes - 1);
    @memcpy(error_area[0..kept], text[0..kept]);
    error_area[kept] = 0;
    return @intFromEnum(status);
}

fn offset(pointer: anytype) u32 {
    return @intCast(@intFromPtr(pointer));
}

pub const log_bytes = 4096;
pub const Log = extern struct {
    written: u32,
    bytes: [log_bytes]u8,
};

/// What a guest sees; clause 2.10.
pub const Tier = enum { full, topk, mask };

pub const SamplerCapacity = struct {
    /// As the manifest's `tier` says; `topk` with `candidates` as its K.
    tier: Tier = .full,
    candidates: u32 = 0,
    /// Slots; with 1, a request with n > 1 gets n instances.
    rows: u32 = 1,
    /// Ids that one answer may take back.
    max_backtrack: u32 = 0,
    /// Bytes of room for the tokens' texts, for `tokenText` and `tokenType`; 0: they are not wanted.
    vocabulary: u32 = 0,
    /// Logits of the largest model; a row is whole pages of 4096 bytes.
    vocab: u32 = 263168,
    /// Ids of the longest context.
    history: u32 = 131072,
    /// OpenAI's API allows 300.
    biases: u32 = 1024,
    /// Bytes; the most that the ABI allows.
    config: u32 = 16384,
};

/// Areas, layout and exports of a sampler. `Guest` has `init`, `reset` and `step`, each `fn () i32`; `step` is called for
/// every row that wants an answer. It may have `began(slot)`, `forked(slot, parent)` and `ended(slot)`, to keep
/// something for each slot (clause 2.13).
pub fn Sampler(comptime capacity: SamplerCapacity, comptime Guest: type) type {
    if (capacity.vocab % 1024 != 0) @compileError("a row of logits is whole pages of 4096 bytes (clause 1.5)");
    if ((capacity.tier == .topk) != (capacity.candidates > 0)) @compileError("candidates belong to tier topk (clause 2.10)");
    const seen = if (capacity.tier == .full) capacity.vocab else 0;
    const words = capacity.vocab / 32;
    return struct {
        var logits_area: [capacity.rows][seen]f32 align(4096) = @splat(@splat(0));
        var candidate_area: [capacity.rows][capacity.candidates]Candidate = undefined;
        var rows_area: [capacity.rows]Row align(8) = undefined;
        var results: [capacity.rows]Result align(8) = undefined;
        var history_area: [capacity.rows][capacity.history]u32 = @splat(@splat(0));
        var answer_area: [capacity.rows][words]u32 = @splat(@splat(0));
        var bias_area: [capacity.biases]Bias = undefined;
        var config_area: [capacity.config]u8 = @splat(0);
        var log_area: Log = .{ .written = 0, .bytes = @splat(0) };
        var words_area: [capacity.vocabulary]u8 align(8) = @splat(0);
        var published: SamplerLayout = undefined;
        var result: *Result = undefined;

        /// The row at hand.
        pub var row: *const Row = undefined;

        /// The row's logits. Write to them only to answer `edited` (clause 2.9).
        pub fn logits() []f32 {
            return logits_area[row.slot][0..row.vocab_size];
        }

        /// The row's best candidates, best first. Change them to answer `edited`.
        pub fn candidates() []Candidate {
            return candidate_area[row.slot][0..row.candidate_count];
        }

        /// Prompt ids, then generated ids.
        pub fn history() []const u32 {
            return history_area[row.slot][0..row.history_length];
        }

        /// Generated ids alone.
        pub fn generated() []const u32 {
            return history()[row.prompt_length..];
        }

        pub fn biases() []const Bias {
            return bias_area[0..row.bias_count];
        }

        pub fn config() []const u8 {
            return config_area[0..row.config_length];
        }

        /// The uniform number of this step's draw, in [0, 1): clause 2.4.
        pub fn uniform() f64 {
            return @as(f64, @floatFromInt(row.random[0] >> 11)) * 0x1p-53;
        }

        /// Text for you, in the log ring (clause 2.15).
        pub fn log(text: []const u8) void {
            for (text) |byte| {
                log_area.bytes[log_area.written % log_bytes] = byte;
                log_area.written +%= 1;
            }
        }

        /// Number of tokens, BOS, EOS; there from `init` on.
        pub fn tokens() *const TokenTable {
            return @ptrCast(&words_area);
        }

        /// The bytes that an id below `tokens().count` spells; control tokens spell none.
        pub fn tokenText(id: u32) []const u8 {
            const offsets: [*]const u32 = @ptrCast(@alignCast(&words_area[tokens().offsets]));
            return words_area[tokens().bytes..][offsets[id]..offsets[id + 1]];
        }

        pub fn tokenType(id: u32) TokenType {
            const found = words_area[tokens().types + id];
            return if (found == 0) .normal else @enumFromInt(found);
        }

        fn vocabulary(size: u32) callconv(.c) u32 {
            return if (size <= capacity.vocabulary) offset(&words_area) else 0;
        }

        fn counted(action: Action, id: u32, count: usize) i32 {
            result.* = .{ .size = @sizeOf(Result), .action = action, .token = id, .count = @intCast(count) };
            return ok;
        }

        /// The answer of this row, for `return answer(...)`; `id` counts for `.token` alone.
        pub fn answer(action: Action, id: u32) i32 {
            return counted(action, id, 0);
        }

        /// A mask: `allowNone`, then `allow` for each id, then `return answer(.mask, 0)`.
        pub fn allowNone() void {
            @memset(answer_area[row.slot][0 .. (row.vocab_size + 31) / 32], 0);
        }

        pub fn allow(id: u32) void {
            answer_area[row.slot][id / 32] |= @as(u32, 1) << @intCast(id % 32);
        }

        /// The host adds these to the logits.
        pub fn sparse(added: []const Bias) i32 {
            const area: [*]Bias = @ptrCast(&answer_area[row.slot]);
            @memcpy(area[0..added.len], added);
            return counted(.sparse, 0, added.len);
        }

        pub fn fastForward(ids: []const u32) i32 {
            @memcpy(answer_area[row.slot][0..ids.len], ids);
            return counted(.fast_forward, 0, ids.len);
        }

        /// Takes `off` ids back, at most `row.backtrack_room`, and appends others.
        pub fn backtrack(off: u32, ids: []const u32) i32 {
            @memcpy(answer_area[row.slot][0..ids.len], ids);
            return counted(.backtrack, off, ids.len);
        }

        fn version() callconv(.c) i32 {
            return abi_minor;
        }

        fn layout() callconv(.c) i32 {
            published = .{
                .max_rows = capacity.rows,
                .vocab_capacity = capacity.vocab,
                .logits = if (seen > 0) offset(&logits_area) else 0,
                .logits_stride = 4 * seen,
                .rows = offset(&rows_area),
                .results = offset(&results),
                .history = offset(&history_area),
                .history_capacity = capacity.history,
                .bias = offset(&bias_area),
                .bias_capacity = capacity.biases,
                .config = offset(&config_area),
                .config_capacity = capacity.config,
                .@"error" = offset(&error_area),
                .error_capacity = error_bytes,
                .candidates = if (capacity.candidates > 0) offset(&candidate_area) else 0,
                .candidate_capacity = capacity.candidates,
                .answer = offset(&answer_area),
                .answer_capacity = 4 * words,
                .log = offset(&log_area),
                .max_backtrack = capacity.max_backtrack,
            };
            return @intCast(offset(&published));
        }

        fn init() callconv(.c) i32 {
            return Guest.init();
        }

        fn reset() callconv(.c) i32 {
            return Guest.reset();
        }

        fn fits() bool {
            return row.size >= @sizeOf(Row) and row.slot < capacity.rows and row.vocab_size <= capacity.vocab and
                row.prompt_length <= row.history_length and row.history_length <= capacity.history and
                row.bias_count <= capacity.biases and row.config_length <= capacity.config and
                row.candidate_count <= capacity.candidates;
        }

        fn tell() void {
            if (@hasDecl(Guest, "began") and row.flags & row_new != 0) Guest.began(row.slot);
            if (@hasDecl(Guest, "forked") and row.flags & row_fork != 0) Guest.forked(row.slot, row.parent);
            if (@hasDecl(Guest, "ended") and row.flags & row_close != 0) Guest.ended(row.slot);
        }

        fn step(rows: u32) callconv(.c) i32 {
            const refused = "step: expected rows within this sampler's capacities";
            if (rows > capacity.rows) return fail(.capacity, refused);
            for (rows_area[0..rows], results[0..rows]) |*next, *place| {
                row = next;
                result = place;
                if (!fits()) return fail(.capacity, refused);
                tell();
                if (row.flags & row_sample == 0) continue;
                const status = Guest.step();
                if (status != ok) return status;
            }
            return ok;
        }

        comptime {
            @export(&version, .{ .name = "sealhost_sampler_v1" });
            @export(&layout, .{ .name = "layout" });
            @export(&init, .{ .name = "init" });
            @export(&reset, .{ .name = "reset" });
            @export(&step, .{ .name = "step" });
            if (capacity.vocabulary > 0) @export(&vocabulary, .{ .name = "vocabulary" });
        }
    };
}

pub const TokenizerCapacity = struct {
    /// Bytes of text of one call.
    input: u32 = 1 << 20,
    /// An id for each byte, BOS and EOS.
    ids: u32 = (1 << 20) + 2,
    /// Bytes of the largest vocabulary: 262,144 tokens with as many merges take 12 MiB.
    stream: u32 = 24 << 20,
};

/// A column of texts in the stream; nothing in it is aligned.
pub const Column = struct {
    count: u32 = 0,
    offsets: [*]u8 = undefined,
    bytes: [*]u8 = undefined,

    fn at(self: Column, index: u32) u32 {
        return load(self.offsets[4 * @as(usize, index) ..][0..4]);
    }

    pub fn entry(self: Column, index: u32) []const u8 {
        return self.bytes[self.at(index)..self.at(index + 1)];
    }

    /// Clauses 4.3 and 4.7.
    fn read(payload: []u8, count: u32) ?Column {
        if (payload.len / 4 <= count) return null;
        const table = 4 * (@as(usize, count) + 1);
        const column = Column{ .count = count, .offsets = payload.ptr, .bytes = payload.ptr + table };
        var last: u32 = 0;
        for (0..count + 1) |index| {
            const next = column.at(@intCast(index));
            if (next < last or (index == 0 and next != 0)) return null;
            last = next;
        }
        return if (last == payload.len - table) column else null;
    }
};

fn load(bytes: *const [4]u8) u32 {
    return @bitCast(bytes.*);
}

/// What the stream says. Texts of byte-level vocabularies (model "gpt2") are turned into the bytes that they spell; of
/// another model nothing is turned, so refuse in `ready` what you do not know (clause 3.8).
pub const Vocabulary = struct {
    model: []const u8 = "",
    pre: []const u8 = "",
    flags: VocabFlags = .{ .bits = 0, .bos = -1, .eos = -1, .unknown = -1 },
    types: [*]const u8 = undefined,
    tokens: Column = .{},
    merges: Column = .{},

    /// Clause 4.4: 0 counts as normal.
    pub fn typeOf(self: *const Vocabulary, id: u32) TokenType {
        return if (self.types[id] == 0) .normal else @enumFromInt(self.types[id]);
    }

    pub fn isByteLevel(self: *const Vocabulary) bool {
        return equal(self.model, "gpt2");
    }

    /// Clauses 4.1 and 4.7; null: malformed.
    fn read(stream: []u8) ?Vocabulary {
        var made = Vocabulary{};
        var rest = stream;
        var last: u32 = 0;
        var seen: u32 = 0;
        while (rest.len > 0) {
            if (rest.len < 8) return null;
            const tag = load(rest[0..4]);
            const length = load(rest[4..8]);
            if (tag <= last or length > rest.len - 8) return null;
            if (!made.section(tag, rest[8..][0..length])) return null;
            seen += @intFromBool(tag <= Tag.merges);
            last = tag;
            rest = rest[8 + length ..];
        }
        const count: i64 = made.tokens.count;
        const whole = seen == Tag.merges and made.flags.bos < count and made.flags.eos < count;
        return if (whole) made else null;
    }

    fn section(self: *Vocabulary, tag: u32, payload: []u8) bool {
        const count = if (payload.len >= 4) load(payload[0..4]) else 0;
        switch (tag) {
            Tag.model => self.model = payload,
            Tag.pre => self.pre = payload,
            Tag.flags => {
                if (payload.len < @sizeOf(VocabFlags)) return false;
                const bytes: *[@sizeOf(VocabFlags)]u8 = @ptrCast(&self.flags);
                @memcpy(bytes, payload[0..bytes.len]);
            },
            Tag.tokens => { // types, scores, offsets, bytes
                if (payload.len < 4 or count > (payload.len - 4) / 9) return false;
                self.types = payload.ptr + 4;
                self.tokens = Column.read(payload[4 + 5 * @as(usize, count) ..], count) orelse return false;
            },
            Tag.merges => {
                if (payload.len < 4) return false;
                self.merges = Column.read(payload[4..], count) orelse return false;
            },
            else => {}, // clause 4.1: of a later version
        }
        return true;
    }

    /// Clause 4.6, in place: what is spelled is never longer than its spelling.
    fn spellAll(self: *Vocabulary) void {
        const column = self.tokens;
        var end: u32 = 0;
        var start: u32 = 0;
        for (0..column.count) |index| {
            const id: u32 = @intCast(index);
            const next = column.at(id + 1);
            const text = column.bytes[start..next];
            const kept: u32 = switch (self.typeOf(id)) {
                .normal, .unused, .byte => spell(text) orelse @intCast(text.len),
                else => @intCast(text.len),
            };
            for (0..kept) |i| column.bytes[end + i] = text[i];
            end += kept;
            start = next;
            column.offsets[4 * (index + 1) ..][0..4].* = @bitCast(end);
        }
    }
};

pub fn equal(a: []const u8, b: []const u8) bool {
    if (a.len != b.len) return false;
    for (a, b) |left, right| if (left != right) return false;
    return true;
}

/// The byte that a letter of GPT-2's alphabet spells.
fn spelledByte(letter: u32) ?u8 {
    return switch (letter) {
        33...126, 161...172, 174...255 => @intCast(letter),
        256...288 => @intCast(letter - 256), // the bytes that are left, in order: 0..32, 127..160, 173
        289...322 => @intCast(letter - 162),
        323 => 173,
        else => null,
    };
}

/// Turns one text into the bytes that it spells, in place; null: it stands for itself.
fn spell(text: []u8) ?u32 {
    var made: u32 = 0;
    for ([_]bool{ false, true }) |write| { // first look, then write: a text outside the alphabet stays as it is
        made = 0;
        var i: usize = 0;
        while (i < text.len) : (i += 1) {
            var letter: u32 = text[i];
            if (letter >= 0x80) { // the alphabet ends at U+0143: two bytes of UTF-8
                if (letter < 0xC2 or letter > 0xDF or i + 1 == text.len or text[i + 1] & 0xC0 != 0x80) return null;
                i += 1;
                letter = (letter & 0x1F) << 6 | (text[i] & 0x3F);
            }
            const byte = spelledByte(letter) orelse return null;
            if (write) text[made] = byte;
            made += 1;
        }
    }
    return made;
}

/// Areas, layout, `load`, `token_bytes` and exports of a tokenizer. `Guest` has `fn ready() i32`, called once when
/// `vocabulary` is complete, and `fn encode(text: []const u8, flags: u32, ids: []u32) i32`, which returns their number.
pub fn Tokenizer(comptime capacity: TokenizerCapacity, comptime Guest: type) type {
    return struct {
        var input: [capacity.input]u8 align(8) = @splat(0);
        var output: [capacity.ids]u32 align(8) = @splat(0);
        var stream: [capacity.stream]u8 = @splat(0);
        var received: u32 = 0;
        var loaded = false;
        var published: TokenizerLayout = undefined;
        pub var vocabulary: Vocabulary = .{};

        fn version() callconv(.c) i32 {
            return abi_minor;
        }

        fn layout() callconv(.c) i32 {
            published = .{
                .input = offset(&input),
                .input_capacity = input.len,
                .output = offset(&output),
                .output_capacity = @sizeOf(@TypeOf(output)),
                .@"error" = offset(&error_area),
                .error_capacity = error_bytes,
            };
            return @intCast(offset(&published));
        }

        fn loadPiece(length: u32, final: u32) callconv(.c) i32 {
            if (loaded or length > input.len)
                return fail(.input, "load: expected pieces of the stream, each within the input area, once");
            if (length > stream.len - received)
                return fail(.capacity, "load: the vocabulary stream does not fit into this guest's memory");
            @memcpy(stream[received..][0..length], input[0..length]);
            received += length;
            if (final == 0) return ok;
            loaded = true;
            vocabulary = Vocabulary.read(stream[0..received]) orelse
                return fail(.input, "load: the vocabulary stream is malformed");
            if (vocabulary.isByteLevel()) vocabulary.spellAll();
            return Guest.ready();
        }

        fn encode(length: u32, flags: u32) callconv(.c) i32 {
            if (!loaded or length > input.len)
                return fail(.input, "encode: expected a loaded vocabulary and a text within the input area");
            return Guest.encode(input[0..length], flags, &output);
        }

        /// Clause 3.7.
        fn tokenBytes(first: u32, count: u32) callconv(.c) i32 {
            const tokens = vocabulary.tokens;
            if (!loaded or first > tokens.count or count > tokens.count - first)
                return fail(.input, "token_bytes: the ids are not in the vocabulary");
            var needed: usize = 4 * @as(usize, count);
            for (first..first + count) |id| needed += given(@intCast(id)).len;
            if (needed > @sizeOf(@TypeOf(output))) return -@as(i32, @intCast(needed));
            const bytes: [*]u8 = @ptrCast(&output);
            var end: usize = 4 * @as(usize, count);
            for (first..first + count) |id| {
                const text = given(@intCast(id));
                output[id - first] = @intCast(text.len);
                @memcpy(bytes[end..][0..text.len], text);
                end += text.len;
            }
            return @intCast(needed);
        }

        fn given(id: u32) []const u8 {
            return if (vocabulary.typeOf(id) == .control) "" else vocabulary.tokens.entry(id);
        }

        comptime {
            @export(&version, .{ .name = "sealhost_tokenizer_v1" });
            @export(&layout, .{ .name = "layout" });
            @export(&loadPiece, .{ .name = "load" });
            @export(&encode, .{ .name = "encode" });
            @export(&tokenBytes, .{ .name = "token_bytes" });
        }
    };
}
