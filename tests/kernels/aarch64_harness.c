/* Runs the aarch64 products on cases from standard input, for test_aarch64.py: packs a tile, multiplies it, embeds row 5.
 *
 * A case: int64 kind, form, records, blocks, columns, bytes of the stored rows, of the activations, and between two of
 * them, bytes of the float32 rows, and between two of them; then the three areas. The answer: float32[columns][16], then
 * float32[32 * blocks].
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef int64_t word;
enum { KIND, FORM, RECORDS, BLOCKS, COLUMNS, STORED, ACTS, STRIDE, PLAIN, PLAIN_STRIDE, WORDS };
enum { ROWS = 16, ROOM = 1 << 20, EMBEDDED_ROW = 5, UNPACKED = 1, WIDE_UNPACKED = 3 };

void sealhost_pack(word kind, word source, word row_bytes, word order, word rows, word first, word end, word records, word out);
void sealhost_unpack(word kind, word tile, word blocks, word lines, word n);
void sealhost_columns(word tile, word lines, word form, word acts, word stride, word plain, word plain_stride, word kind,
                      word blocks, word n, word out);
void sealhost_embed(word kind, word tile, word row, word blocks, word out);

static char stored[ROOM], acts[ROOM], plain[ROOM], tile[ROOM], lines[ROOM], out[ROOM];

int main(void) {
    word c[WORDS];
    while (fread(c, sizeof *c, WORDS, stdin) == WORDS) {
        if (fread(stored, 1, c[STORED], stdin) + fread(acts, 1, c[ACTS], stdin) + fread(plain, 1, c[PLAIN], stdin) !=
            (size_t)(c[STORED] + c[ACTS] + c[PLAIN]))
            return EXIT_FAILURE;
        for (size_t i = 0; i < ROOM; i++)
            tile[i] = 0;
        sealhost_pack(c[KIND], (word)stored, c[STORED] / ROWS, 0, ROWS, 0, 1, c[RECORDS], (word)tile);
        if (c[FORM] == UNPACKED || c[FORM] == WIDE_UNPACKED)
            sealhost_unpack(c[KIND], (word)tile, c[BLOCKS], (word)lines, c[COLUMNS]);
        sealhost_columns((word)tile, (word)lines, c[FORM], (word)acts, c[STRIDE], (word)plain, c[PLAIN_STRIDE], c[KIND],
                         c[BLOCKS], c[COLUMNS], (word)out);
        fwrite(out, 4 * ROWS, c[COLUMNS], stdout);
        sealhost_embed(c[KIND], (word)tile, EMBEDDED_ROW, c[BLOCKS], (word)out);
        fwrite(out, 4 * 32, c[BLOCKS], stdout);
        fflush(stdout);
    }
    return EXIT_SUCCESS;
}
