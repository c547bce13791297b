/* What a freestanding guest needs and has no libc for: memory primitives and error texts.
 *
 * Header-only. Include it in as many files as you like; the error area belongs to the one file that
 * defines SEALHOST_ERROR_AREA before including it.
 */
#ifndef SEALHOST_GUEST_H
#define SEALHOST_GUEST_H

#include <stddef.h>
#include <stdint.h>

#include "sealhost.h"

#define SEALHOST_ERROR_BYTES 512

/* UTF-8, NUL-terminated; layouts point at it. */
extern char sealhost_error_area[SEALHOST_ERROR_BYTES];

#ifdef SEALHOST_ERROR_AREA
char sealhost_error_area[SEALHOST_ERROR_BYTES];
#endif

/* The published offset of an object in linear memory. */
static inline uint32_t sealhost_offset(const volatile void *object) {
    return (uint32_t)(uintptr_t)object;
}

/* Unaligned little-endian loads: wasm allows them, C only through memcpy. */
static inline uint32_t load_u32(const uint8_t *from) {
    uint32_t value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
}

static inline int32_t load_i32(const uint8_t *from) {
    return (int32_t)load_u32(from);
}

static inline void store_u32(uint8_t *to, uint32_t value) {
    __builtin_memcpy(to, &value, sizeof value);
}

/* Each becomes one bulk-memory instruction. */
static inline void copy_bytes(void *to, const void *from, size_t count) {
    __builtin_memcpy(to, from, count);
}

/* The two ranges may overlap. */
static inline void move_bytes(void *to, const void *from, size_t count) {
    __builtin_memmove(to, from, count);
}

static inline void clear_bytes(void *at, size_t count) {
    __builtin_memset(at, 0, count);
}

static inline int equal_bytes(const uint8_t *a, const uint8_t *b, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (a[i] != b[i])
            return 0;
    return 1;
}

/* ---- error texts: error_begin, then pieces; what does not fit is cut ---------------------------------- */

static inline void error_bytes(const void *bytes, size_t count) {
    const uint8_t *from = bytes;
    size_t used = 0;
    while (used < SEALHOST_ERROR_BYTES - 1 && sealhost_error_area[used])
        used++;
    for (size_t i = 0; i < count && used < SEALHOST_ERROR_BYTES - 1; i++)
        sealhost_error_area[used++] = (from[i] >= 0x20 && from[i] < 0x7f) ? (char)from[i] : '?';
    sealhost_error_area[used] = 0;
}

static inline void error_text(const char *text) {
    size_t count = 0;
    while (text[count])
        count++;
    error_bytes(text, count);
}

static inline void error_number(uint32_t number) {
    char digits[10];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    error_bytes(digits + at, sizeof digits - at);
}

static inline void error_begin(const char *text) {
    sealhost_error_area[0] = 0;
    error_text(text);
}

/* One sentence and its status, for `return fail(...)`. */
static inline int32_t fail(int32_t status, const char *text) {
    error_begin(text);
    return status;
}

#endif /* SEALHOST_GUEST_H */
