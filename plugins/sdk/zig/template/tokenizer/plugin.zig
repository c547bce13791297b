//! @NAME@: the longest token that fits, from left to right, for byte-level vocabularies (model "gpt2").
//!
//! It spells every text, but not with the ids that a model was trained on: change `encode`. `guest.vocabulary` holds
//! tokens, merges and flags.

const sealhost = @import("sealhost");

const guest = sealhost.Tokenizer(.{}, @This());
comptime {
    _ = guest;
}

/// Slots of each table; twice the largest vocabulary, so that a search stays short.
const slots = 1 << 20;

/// Ids + 1, by the bytes that the ids stand for.
const Table = struct {
    ids: [slots]u32 = @splat(0),
    longest: usize = 0,

    /// The slot of these bytes, or the free one where they belong.
    fn slot(self: *Table, hash: u32, bytes: []const u8) *u32 {
        var at = hash ^ hash >> 15;
        while (true) : (at +%= 1) {
            const found = &self.ids[at % slots];
            if (found.* == 0 or sealhost.equal(guest.vocabulary.tokens.entry(found.* - 1), bytes)) return found;
        }
    }
};

var plain: Table = .{};
var special: Table = .{};

/// FNV-1a, which grows byte by byte along the text.
fn hashMore(hash: u32, byte: u8) u32 {
    return (hash ^ byte) *% 16777619;
}

const hash_of_nothing: u32 = 2166136261;

pub fn ready() i32 {
    const vocabulary = &guest.vocabulary;
    if (!vocabulary.isByteLevel())
        return sealhost.fail(.unsupported, "load: expected tokenizer.ggml.model gpt2, got another");
    if (vocabulary.tokens.count > slots / 2)
        return sealhost.fail(.capacity, "load: expected at most 524288 tokens, got more");
    for (0..vocabulary.tokens.count) |index| {
        const id: u32 = @intCast(index);
        const text = vocabulary.tokens.entry(id);
        const table = switch (vocabulary.typeOf(id)) {
            .unknown, .unused => continue, // clause 3.5: never from text
            .control, .user_defined => &special,
            else => &plain,
        };
        if (text.len == 0) continue;
        var hash = hash_of_nothing;
        for (text) |byte| hash = hashMore(hash, byte);
        const slot = table.slot(hash, text);
        if (slot.* == 0) slot.* = id + 1;
        table.longest = @max(table.longest, text.len);
    }
    return sealhost.ok;
}

const Match = struct { id: u32, length: usize };

/// The longest special token at the front of the text, else the longest plain one.
fn match(text: []const u8, controls: bool) ?Match {
    var best: ?Match = null;
    var best_special: ?Match = null;
    var hash = hash_of_nothing;
    for (text[0..@min(text.len, @max(plain.longest, special.longest))], 1..) |byte, length| {
        hash = hashMore(hash, byte);
        const id = plain.slot(hash, text[0..length]).*;
        if (id != 0) best = .{ .id = id - 1, .length = length };
        const other = special.slot(hash, text[0..length]).*;
        if (other != 0 and (controls or guest.vocabulary.typeOf(other - 1) != .control)) // clause 3.4
            best_special = .{ .id = other - 1, .length = length };
    }
    return best_special orelse best;
}

pub fn encode(text: []const u8, flags: u32, ids: []u32) i32 {
    const add = flags & sealhost.add_special != 0;
    const controls = flags & sealhost.parse_special != 0;
    const facts = guest.vocabulary.flags;
    const bos: ?u32 = if (add and facts.bits & sealhost.add_bos != 0 and facts.bos >= 0) @intCast(facts.bos) else null;
    const eos: ?u32 = if (add and facts.bits & sealhost.add_eos != 0 and facts.eos >= 0) @intCast(facts.eos) else null;
    var count: usize = 0;
    var at: usize = 0;
    while (at < text.len) {
        const found = match(text[at..], controls) orelse {
            at += 1; // clause 3.3: a byte of which the vocabulary has no token is left out
            continue;
        };
        at += found.length;
        if (count == 0 and bos != null and found.id != bos.?) { // clause 3.6: never doubled
            ids[count] = bos.?;
            count += 1;
        }
        ids[count] = found.id;
        count += 1;
    }
    if (count == 0 and bos != null) {
        ids[count] = bos.?;
        count += 1;
    }
    if (eos != null and (count == 0 or ids[count - 1] != eos.?)) {
        ids[count] = eos.?;
        count += 1;
    }
    return @intCast(count);
}
