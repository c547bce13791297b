//! @NAME@: forbids the last token, so that none comes twice in a row, and leaves the drawing to the host.
//!
//! Change `step`. What the host writes before each one: `guest.row` (parameters, lengths, randomness), `guest.logits()`,
//! `guest.history()`, `guest.biases()`, `guest.config()`.

const sealhost = @import("sealhost");

const guest = sealhost.Sampler(.{}, @This());
comptime {
    _ = guest;
}

const nothing = -@as(f32, @bitCast(@as(u32, 0x7f800000))); // -inf

/// Tables that need time are made here: the host snapshots the guest after it.
pub fn init() i32 {
    return sealhost.ok;
}

/// Forgets what `step` remembered; this guest remembers nothing.
pub fn reset() i32 {
    return sealhost.ok;
}

pub fn step() i32 {
    const generated = guest.generated();
    if (generated.len == 0)
        return guest.answer(.pass, 0); // nothing is generated yet: the host draws from the logits as they are
    const logits = guest.logits();
    for (logits) |*logit| {
        if (logit.* != logit.*) logit.* = nothing; // NaN counts as -inf (clause 2.6), and `edited` must hold none
    }
    const last = generated[generated.len - 1];
    if (last < logits.len) logits[last] = nothing;
    return guest.answer(.edited, 0); // the host draws from what is left, with the request's parameters
}
