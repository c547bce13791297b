//! Says what the first letter of its configuration asks for.

const sealhost = @import("sealhost");

const guest = sealhost.Sampler(.{ TIER }, @This());
comptime {
    _ = guest;
}

pub fn init() i32 {
    return sealhost.ok;
}

pub fn reset() i32 {
    return sealhost.ok;
}

pub fn step() i32 {
    const nothing = -@as(f32, @bitCast(@as(u32, 0x7f800000)));
    switch (guest.config()[0]) {
        'm' => {
            guest.allowNone();
            guest.allow(1);
            guest.allow(40);
            return guest.answer(.mask, 0);
        },
        's' => return guest.sparse(&.{ .{ .id = 3, .bias = 100 }, .{ .id = 4, .bias = nothing } }),
        'f' => return guest.fastForward(&.{ 5, 6, 7 }),
        'b' => return guest.backtrack(2, &.{9}),
        'l' => {
            guest.log("hello\n");
            return guest.answer(.pass, 0);
        },
        'e' => {
            guest.candidates()[0].logit = nothing;
            return guest.answer(.edited, 0);
        },
        'v' => { // the text of the last token of the prompt, byte by byte, then its type, the number of tokens, and EOS
            const id = guest.history()[guest.row.prompt_length - 1];
            var ids: [16]u32 = undefined;
            const text = guest.tokenText(id);
            for (text, 0..) |byte, i| ids[i] = byte;
            ids[text.len] = @intFromEnum(guest.tokenType(id));
            ids[text.len + 1] = guest.tokens().count;
            ids[text.len + 2] = @bitCast(guest.tokens().eos);
            return guest.fastForward(ids[0 .. text.len + 3]);
        },
        else => return guest.answer(.stop, 0),
    }
}
