#include "formats.h"

#include "limits.h"

/* RFC 3339. The leap years are those divisible by 4, but for hundreds that 4 does not divide. No leap seconds: which there
 * were is nothing that a pattern knows. */
#define LEAP "(\\d\\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)"
#define DATE "(\\d{4}-((0[1-9]|1[0-2])-(0[1-9]|1\\d|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)|" LEAP "-02-29)"
#define HOUR "([01]\\d|2[0-3])"
#define TIME HOUR ":[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-]" HOUR ":[0-5]\\d)"

/* RFC 3339, appendix A; numbers of at most nine digits. */
#define N "\\d{1,9}"
#define DURATION_TIME "T(" N "H(" N "M(" N "S)?)?|" N "M(" N "S)?|" N "S)"
#define DURATION "P(" N "W|(" N "Y(" N "M(" N "D)?)?|" N "M(" N "D)?|" N "D)(" DURATION_TIME ")?|" DURATION_TIME ")"

/* RFC 1123 and 5890: labels of letters, digits and inner hyphens, no two of these at the third place. */
#define L "[a-zA-Z0-9]"
#define M "[a-zA-Z0-9-]"
#define LABEL L "(" M "{0,2}" L "|" M "(" L M "|-" L ")" M "{0,58}" L ")?"
#define HOSTNAME LABEL "(\\." LABEL ")*"
#define MOST_HOSTNAME 253u

/* RFC 5321: a Dot-string of at most 64 characters, of which more parts are shorter ones, at a domain. */
#define A "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]"
#define EMAIL "(" A "{1,64}|" A "{1,31}\\." A "{1,31}|" A "{1,15}(\\." A "{1,15}){0,3})@" HOSTNAME
#define MOST_EMAIL 254u /* a path of 256 without its brackets */

/* RFC 2673, RFC 4291. */
#define BYTE "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4 BYTE "(\\." BYTE "){3}"
#define H16 "[0-9a-fA-F]{1,4}"
#define LS32 "(" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                                                                  \
    "((" H16 ":){6}" LS32 "|::(" H16 ":){5}" LS32 "|(" H16 ")?::(" H16 ":){4}" LS32 "|((" H16 ":){0,1}" H16 ")?::(" H16 ":){3}" LS32 \
    "|((" H16 ":){0,2}" H16 ")?::(" H16 ":){2}" LS32 "|((" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|((" H16 ":){0,4}" H16 ")?::" LS32  \
    "|((" H16 ":){0,5}" H16 ")?::" H16 "|((" H16 ":){0,6}" H16 ")?::)"

/* RFC 3986; a host in brackets is an IPv6 address. */
#define ESCAPED "%[0-9a-fA-F]{2}"
#define PCHAR "([a-zA-Z0-9._~!$&'()*+,;=:@-]|" ESCAPED ")"
#define AUTHORITY "(([a-zA-Z0-9._~!$&'()*+,;=:-]|" ESCAPED ")*@)?([a-zA-Z0-9._~!$&'()*+,;=-]|" ESCAPED ")*(:\\d*)?"
#define AUTHORITY6 "(([a-zA-Z0-9._~!$&'()*+,;=:-]|" ESCAPED ")*@)?\\[" IPV6 "\\](:\\d*)?"
#define PATHS "(/" PCHAR "*)*"
#define URI                                                                                                                   \
    "[a-zA-Z][a-zA-Z0-9+.-]*:(//(" AUTHORITY "|" AUTHORITY6 ")" PATHS "|/(" PCHAR "+" PATHS ")?|" PCHAR "+" PATHS                \
    ")?(\\?(" PCHAR "|[/?])*)?(#(" PCHAR "|[/?])*)?"

static const struct {
    const char *name, *pattern;
    uint32_t least, most; /* letters */
} formats[FORMATS] = {
    {"date-time", DATE "T" TIME, 20, ENDLESS},
    {"date", DATE, 10, ENDLESS},
    {"time", TIME, 9, ENDLESS},
    {"duration", DURATION, 3, ENDLESS},
    {"email", EMAIL, 3, MOST_EMAIL},
    {"hostname", HOSTNAME, 1, MOST_HOSTNAME},
    {"ipv4", IPV4, 7, ENDLESS},
    {"ipv6", IPV6, 2, ENDLESS},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}", 36, ENDLESS},
    {"uri", URI, 2, ENDLESS},
};

uint32_t format_named(const struct json *json, uint32_t node) {
    for (uint32_t i = 0; i < FORMATS; i++)
        if (json_is(json, json->nodes[node].at, json->nodes[node].length, formats[i].name))
            return i + 1;
    return NO_FORMAT;
}

uint32_t format_least(uint32_t format) {
    return formats[format - 1].least;
}

uint32_t format_most(uint32_t format) {
    return formats[format - 1].most;
}

const char *format_pattern(uint32_t format) {
    return formats[format - 1].pattern;
}
