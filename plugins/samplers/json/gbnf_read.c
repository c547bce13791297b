/* Reads GBNF into a tree, with a list of open groups instead of calls of itself. */
#include "gbnf_tree.h"
#include "sealhost_guest.h"

struct grammar grammar;
int32_t gbnf_status;

static struct open {
    uint32_t at;       /* of its parenthesis */
    uint32_t sequence; /* the last finished one */
    uint32_t part;     /* the last one of the sequence that is being read */
} open[GBNF_NESTING + 1];
static uint32_t depth, at;
static struct characters set;

/* ---- refusals ---- */

int gbnf_refuse(int32_t status, uint32_t place, const char *expected) {
    uint32_t line = 1, column = 1;
    if (gbnf_status)
        return 0;
    for (uint32_t i = 0; i < place; i++) {
        uint8_t c = grammar.text[i];
        if (c == '\n' || (c == '\r' && (i + 1 == place || grammar.text[i + 1] != '\n')))
            line++, column = 1;
        else
            column += (c & 0xc0) != 0x80 && c != '\r';
    }
    gbnf_status = status;
    error_begin("grammar: line ");
    error_number(line);
    error_text(", column ");
    error_number(column);
    error_text(": expected ");
    error_text(expected);
    at = grammar.length;
    return 1;
}

static void got(uint32_t place) {
    error_text(", got ");
    uint8_t c = place < grammar.length ? grammar.text[place] : 0;
    if (place >= grammar.length)
        error_text("the end");
    else if (c == '\n' || c == '\r')
        error_text("a line break");
    else if (c > ' ' && c < 0x7f)
        error_bytes(&c, 1);
    else
        error_text(c == ' ' ? "a space" : "another character");
}

static void wrong(uint32_t place, const char *expected) {
    if (gbnf_refuse(SEALHOST_ERROR_INPUT, place, expected))
        got(place);
}

static void too_many(const char *expected) {
    if (gbnf_refuse(SEALHOST_ERROR_CAPACITY, at, expected))
        error_text(", got more");
}

/* ---- letters ---- */

static uint8_t look(void) {
    return at < grammar.length ? grammar.text[at] : 0;
}

static int take(uint8_t byte) {
    if (at >= grammar.length || grammar.text[at] != byte)
        return 0;
    at++;
    return 1;
}

/* Skips blanks and comments, and line breaks where they mean nothing. */
static void skip(int over_lines) {
    for (; at < grammar.length; at++) {
        uint8_t c = grammar.text[at];
        if (c == '#')
            while (at + 1 < grammar.length && grammar.text[at + 1] != '\n' && grammar.text[at + 1] != '\r')
                at++;
        else if (c != ' ' && c != '\t' && !(over_lines && (c == '\n' || c == '\r')))
            return;
    }
}

static int is_digit(uint8_t c) {
    return c >= '0' && c <= '9';
}

static int is_word(uint8_t c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
}

static uint32_t hex(uint32_t digits) {
    uint32_t found = 0;
    for (; digits > 0; digits--, at++) {
        uint8_t c = look(), low = c | 0x20;
        if (is_digit(c))
            found = found << 4 | (uint32_t)(c - '0');
        else if (low >= 'a' && low <= 'f')
            found = found << 4 | (uint32_t)(low - 'a' + 10);
        else {
            wrong(at, "a hexadecimal digit: \\xHH, \\uHHHH or \\UHHHHHHHH");
            return 0;
        }
    }
    return found;
}

/* One character of a literal or a class, as it stands or escaped. */
static uint32_t letter(void) {
    static const uint8_t written[] = "trn\\\"[]-", meant[] = "\t\r\n\\\"[]-";
    uint32_t from = at, found;
    if (!take('\\'))
        found = read_character(grammar.text, grammar.length, &at);
    else if (take('x'))
        found = hex(2);
    else if (take('u'))
        found = hex(4);
    else if (take('U'))
        found = hex(8);
    else {
        for (uint32_t i = 0; i < sizeof written - 1; i++)
            if (take(written[i]))
                return meant[i];
        wrong(at, "an escape: \\t \\r \\n \\\\ \\\" \\[ \\] \\- \\xHH \\uHHHH \\UHHHHHHHH");
        return 0;
    }
    if (found > LAST_CHARACTER && gbnf_refuse(SEALHOST_ERROR_INPUT, from, "a character up to \\U0010FFFF"))
        error_text(", got a larger number");
    return found;
}

/* ---- parts ---- */

static uint32_t new_part(uint8_t kind, uint32_t place) {
    if (grammar.part_count == GBNF_PARTS) {
        too_many("a grammar with fewer parts");
        return NO_PART;
    }
    grammar.parts[grammar.part_count] = (struct part){.kind = kind, .least = 1, .most = 1, .at = place};
    return grammar.part_count++;
}

/* Puts a part behind the others of the sequence that is being read. */
static void add(uint32_t part) {
    grammar.parts[part].before = open[depth].part;
    open[depth].part = part;
}

static void add_range(uint32_t low, uint32_t high) {
    if (grammar.range_count == GBNF_RANGES) {
        too_many("a grammar with fewer characters");
        return;
    }
    grammar.ranges[grammar.range_count++] = (struct range){low, high};
}

static void read_literal(void) {
    uint32_t from = at++, first = grammar.range_count, part = new_part(PART_TEXT, from);
    while (at < grammar.length && look() != '"') {
        uint32_t place = at, c = letter();
        if (c >= 0xd800 && c <= 0xdfff && gbnf_refuse(SEALHOST_ERROR_INPUT, place, "a whole character"))
            error_text(", got half of a surrogate pair; write \\UHHHHHHHH");
        add_range(c, c);
    }
    if (!take('"'))
        wrong(at, "\" at the end of a literal");
    grammar.parts[part].a = first;
    grammar.parts[part].count = grammar.range_count - first;
    add(part);
}

static void read_class(void) {
    uint32_t from = at++, part = new_part(PART_SET, from);
    int is_inverted = take('^');
    set.count = 0;
    if (look() == ']')
        wrong(at, "a character of the class (\\] stands for a bracket)");
    while (at < grammar.length && look() != ']') {
        uint32_t place = at, low = letter(), high = low;
        if (look() == '-' && at + 1 < grammar.length && grammar.text[at + 1] != ']') {
            at++;
            high = letter();
            if (high < low && gbnf_refuse(SEALHOST_ERROR_INPUT, place, "a range from a lower character to a higher one"))
                error_text(", got one from a higher to a lower");
        }
        if (!add_characters(&set, low, high))
            too_many("a class of at most 512 characters and ranges");
    }
    if (!take(']'))
        wrong(at, "] at the end of a class");
    if (is_inverted && !invert_characters(&set))
        too_many("a class of at most 512 characters and ranges");
    join_characters(&set);
    grammar.parts[part].a = grammar.range_count;
    for (uint32_t i = 0; i < set.count; i++)
        add_range(set.ranges[i].low, set.ranges[i].high);
    grammar.parts[part].count = grammar.range_count - grammar.parts[part].a;
    add(part);
}

static void read_any(void) {
    uint32_t part = new_part(PART_SET, at++);
    grammar.parts[part].a = grammar.range_count;
    grammar.parts[part].count = 1;
    add_range(0, LAST_CHARACTER);
    add(part);
}

/* The rule whose name stands here. */
static uint32_t read_name(void) {
    uint32_t from = at;
    while (is_word(look()))
        at++;
    uint32_t rule = gbnf_named(from, at - from);
    if (rule == NO_RULE)
        too_many("at most 4096 rules");
    return rule == NO_RULE ? 0 : rule;
}

static void read_reference(void) {
    uint32_t part = new_part(PART_RULE, at), rule = read_name();
    grammar.parts[part].a = rule;
    grammar.parts[part].alike = grammar.rules[rule].named;
    grammar.rules[rule].named = part;
    add(part);
}

/* ---- groups ---- */

/* A sequence or group of what hangs together by `before`. */
static uint32_t new_whole(uint8_t kind, uint32_t place, uint32_t last) {
    uint32_t made = new_part(kind, place), height = 0;
    for (uint32_t i = last; i && made; i = grammar.parts[i].before) {
        grammar.parts[i].whole = made;
        height = grammar.parts[i].height > height ? grammar.parts[i].height : height;
    }
    height += kind == PART_GROUP;
    if (height > GBNF_NESTING)
        too_many("at most 256 groups within groups");
    grammar.parts[made].a = last;
    grammar.parts[made].height = (uint16_t)height;
    return made;
}

static void end_sequence(void) {
    uint32_t made = new_whole(PART_SEQUENCE, open[depth].at, open[depth].part);
    grammar.parts[made].before = open[depth].sequence;
    open[depth].sequence = made;
    open[depth].part = NO_PART;
}

static uint32_t end_group(void) {
    end_sequence();
    return new_whole(PART_GROUP, open[depth].at, open[depth].sequence);
}

static void begin_group(void) {
    if (depth == GBNF_NESTING) {
        too_many("at most 256 groups within groups");
        return;
    }
    open[++depth] = (struct open){.at = at++};
}

static uint32_t number(void) {
    uint32_t found = 0, from = at;
    if (!is_digit(look()))
        wrong(at, "a number of repetitions");
    while (is_digit(look()) && found <= GBNF_MAX_REPEAT)
        found = found * 10 + (uint32_t)(grammar.text[at++] - '0');
    if (found > GBNF_MAX_REPEAT && gbnf_refuse(SEALHOST_ERROR_CAPACITY, from, "at most 2000 repetitions"))
        error_text(", got more");
    return found;
}

/* Reads a quantifier. */
static void read_repetitions(uint32_t *least, uint32_t *most) {
    uint32_t from = at;
    *least = 0;
    *most = GBNF_FOR_EVER;
    if (take('*'))
        return;
    if (take('+'))
        *least = 1;
    else if (take('?'))
        *most = 1;
    else {
        at++;
        skip(depth > 0);
        *least = *most = number();
        skip(depth > 0);
        if (take(',')) {
            skip(depth > 0);
            *most = look() == '}' ? GBNF_FOR_EVER : number();
            skip(depth > 0);
        }
        if (!take('}'))
            wrong(at, "} at the end of {m}, {m,} or {m,n}");
        if (*most < *least && gbnf_refuse(SEALHOST_ERROR_INPUT, from, "{m,n} with m no larger than n"))
            error_text(", got a larger m");
    }
}

/* Repeats the last part of the sequence; one that is repeated already becomes a group of its own. */
static void repeat(void) {
    uint32_t part = open[depth].part, from = at, least, most;
    if (part == NO_PART) {
        wrong(at, "a literal, class, rule or group before it");
        return;
    }
    read_repetitions(&least, &most);
    if (grammar.parts[part].least != 1 || grammar.parts[part].most != 1) {
        uint32_t before = grammar.parts[part].before;
        grammar.parts[part].before = NO_PART;
        part = new_whole(PART_GROUP, from, new_whole(PART_SEQUENCE, from, part));
        grammar.parts[part].before = before;
        open[depth].part = part;
    }
    grammar.parts[part].least = (uint16_t)least;
    grammar.parts[part].most = (uint16_t)most;
}

static void read_token(void) {
    static const char *expected = "a literal, class, rule or group: this guest does not match tokens by id or name";
    uint32_t from = at, end = at;
    while (end < grammar.length && end - from < 40 && grammar.text[end] != '>')
        end++;
    if (gbnf_refuse(SEALHOST_ERROR_UNSUPPORTED, from, expected)) {
        error_text(", got ");
        error_bytes(grammar.text + from, end - from + (end < grammar.length));
    }
}

/* ---- rules ---- */

/* One thing of a rule's body; 0: the rule ends here. */
static int read_part(void) {
    uint8_t c = look();
    if (at >= grammar.length || c == '\n' || c == '\r') { /* only where no group is open, but for the end */
        skip(1);
        if (depth > 0)
            wrong(at, ") at the end of a group");
        return look() == '|' && at < grammar.length;
    }
    if (c == '"')
        read_literal();
    else if (c == '[')
        read_class();
    else if (c == '.')
        read_any();
    else if (is_word(c))
        read_reference();
    else if (c == '*' || c == '+' || c == '?' || c == '{')
        repeat();
    else if (c == '(') {
        begin_group();
        skip(1);
        return 1;
    } else if (c == '|') {
        at++;
        end_sequence();
        skip(1);
        return 1;
    } else if (c == ')' && depth > 0) {
        uint32_t group = end_group();
        depth--;
        at++;
        add(group);
    } else if (c == '<' || c == '!')
        read_token();
    else
        wrong(at, c == ')' ? "a ( before it" : "a literal, class, rule, group or the end of the rule");
    skip(depth > 0);
    return 1;
}

static void read_rule(void) {
    uint32_t place = at;
    if (!is_word(look())) {
        wrong(at, "the name of a rule");
        return;
    }
    uint32_t rule = read_name();
    if (grammar.rules[rule].body) {
        if (gbnf_refuse(SEALHOST_ERROR_INPUT, place, "each rule once, got a second ")) {
            gbnf_name(rule);
            error_text("; join the two by |");
        }
        return;
    }
    skip(0);
    if (!take(':') || !take(':') || !take('=')) {
        wrong(at, "::= after the name of a rule");
        return;
    }
    skip(1);
    depth = 0;
    open[0] = (struct open){.at = place};
    uint32_t first = grammar.part_count;
    while (!gbnf_status && read_part())
        ;
    uint32_t body = gbnf_status ? NO_PART : end_group();
    grammar.parts[body].count = rule;
    grammar.rules[rule].at = place;
    grammar.rules[rule].body = body;
    grammar.rules[rule].first = first;
    grammar.rules[rule].end = grammar.part_count;
    skip(1);
}

void gbnf_read(const uint8_t *text, uint32_t length) {
    grammar.text = text;
    grammar.length = length;
    grammar.part_count = 1;
    grammar.range_count = 0;
    gbnf_forget_names();
    grammar.parts[NO_PART] = (struct part){0};
    gbnf_status = SEALHOST_OK;
    at = 0;
    if (length > GBNF_BYTES)
        too_many("at most 16384 bytes");
    skip(1);
    while (at < grammar.length)
        read_rule();
}
