"""GBNF grammars: at least one for each rule of the notation, examples of whole languages, and random ones."""

from __future__ import annotations

import random

GRAMMARS = [
    # literals, and what stands in them
    'root ::= "a"',
    'root ::= ""',
    'root ::= "abc" "" "ab"',
    r'root ::= "\x61\u0062\U00000063"',
    r'root ::= "\n" | "\t" | "\r" | "\\" | "\"" | "\[\]\-"',
    'root ::= "日本" | "é" | "😀"',
    'root ::= "a\nb"',
    r'root ::= "\u00e9" [\U0001F600-\U0001F64F]?',
    'root ::= "#(|)*[a]" # a comment',
    # classes
    "root ::= [ab]",
    "root ::= [^ab]",
    "root ::= [a-cx-z0-9]+",
    "root ::= [a-]+ [-a]* [+-]",
    r"root ::= [\]\[\\^]+",
    "root ::= [^^]",
    r'root ::= [^"\\\x7F\x00-\x1F]',
    "root ::= [é日]{1,2}",
    "root ::= [^日]",
    "root ::= [ࠀ￿] | [߿-ࠁ]",
    "root ::= [\ud7ff-\ue000]",
    r"root ::= [\uff00-\U00010100]",
    r"root ::= [^\x00-\uffff]",
    r"root ::= [\x00-\x1f]+",
    "root ::= .",
    'root ::= . "a"',
    # sequences, alternatives, lines
    'root ::= "a" "b" | "ab" "c" | "abc"',
    'root ::= | "a"',
    'root ::= "a" | ',
    'root ::= "a" |\n  "b" |\n\n # why not\n "c"',
    'root ::= "a"\n  | "b"\n  | "ab" "c"\n',
    'root ::=\n  "ab"\n\n\n',
    'root ::= (\n "a"\n "b" # in a group lines mean nothing\n |\n "c"\n)\n',
    'root::="a"b\r\nb::="b"|"ba"\r\n',
    '# first\n\nroot ::= item # last\nitem ::= "a" | "b"',
    "root ::= ()",
    'root ::= (((("a" | "b") | "c") "a") | ())',
    # repetitions
    'root ::= "a"*',
    'root ::= "ab"+ "c"',
    'root ::= "a"? "b"? "a"?',
    'root ::= "a"{3}',
    'root ::= "a"{2,} "b"',
    "root ::= [ab]{2,4}",
    'root ::= "a"{0} "b"',
    'root ::= "ab"{0,3}',
    'root ::= "a" { 1 , 2 } "b"',
    'root ::= ("a" | "bc"{2}){1,2} "a"',
    'root ::= ((a*)*)*\na ::= "a" | "ab"',
    'root ::= ("a"? "b"?)*',
    'root ::= ("" | "a" | "" "b")+ "c"',
    'root ::= "a"*?+ "b"{1,2}{2}',
    'root ::= (("a"{2}){2}){2}',
    'root ::= (.{0,2} "a"){2}',
    'root ::= ("a" | "b")* "a" ("a" | "b"){5}',
    'root ::= [^"]{300} "a"',
    'root ::= ([ab] | "a" [ab]){700,} "c"',
    # rules and recursion
    'root ::= a-1 B_2 3c\na-1 ::= "a"\nB_2 ::= "b" | a-1\n3c ::= "12" | [0-9]',
    'root ::= "a" root | "b"',
    'root ::= "(" root ")" | ""',
    'root ::= "a" root "b" | "c" root "c" | [12]?',
    'root ::= "[" (root ("," root)*)? "]" | [0-9]+',
    'root ::= even\neven ::= "" | "a" odd\nodd ::= "a" even | "b"',
    'root ::= "a" root? "b" | "a" root | "ab"',
    'root ::= ("a" root?)*',
    'root ::= one one one\none ::= "a" | "aa" | ("a" | "b")*',
    'root ::= x{2,3} y\nx ::= "a" | "{" y "}"\ny ::= x x? | [^ab]',
    'root ::= "é" root "日" | "本" | [é日]',
    # what no text completes is not begun
    'root ::= "a" | b\nb ::= "b" b',
    r'root ::= "a" | "b" [^\x00-\U0010FFFF] | "ab"',
    # ambiguous
    'root ::= ("a" | "ab") ("c" | "bc") | "abc"',
    'root ::= ("a" | "b" | "ab" | "ba" | "aa")* "c"',
    'root ::= s\ns ::= "a" s? s? | "b"',
    "root ::= .* .* .*",
    'root ::= (.* "a"){3}',
    # strings, in which plain tokens pass at once
    r'root ::= "\"" [^"\\]* "\""',
    r'root ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\nu] | "u" [0-9a-f]{4}))* "\""',
    r'root ::= "\"" char{2,5} "\"" [ab]?' + "\n" + r'char ::= [^"\\] | "\\" ["n]',
    r'root ::= "\"" [^"\x00-\x1f]{1,40} ("\"" | "\n")',
    r'root ::= [^"]{0,3} "a"',
    r'root ::= ([^"] | "a" [^"] "b"){1,3} "\""',
    r'root ::= ([^"] | "\n" [^"])* "\""',
    r'root ::= ([^"\x00-\x1f] | "\n" [ -~])* [^"\\]+ "\""',
    r'root ::= (([^"]) | ("" | [^a]))+ "\""',
    r'root ::= ([^"]?){2,4} "\""',
    r'root ::= [^"]{3,} "\"" .{2,3} "\n"',
    r'root ::= [^"]{1,3} ("\"" | "\n" [^"]{2} "\"")',
    r'root ::= (.{2} | "1")+ "\""',
]  # fmt: skip

# the languages of llama.cpp's example grammars, written anew

JSON = r"""
# any JSON value
root   ::= gap value
value  ::= (text | number | list | dict | "true" | "false" | "null") gap
list   ::= "[" gap (value ("," gap value)*)? "]"
dict   ::= "{" gap (pair ("," gap pair)*)? "}"
pair   ::= text gap ":" gap value
text   ::= "\"" letter* "\""
letter ::= [^"\\\x00-\x1f] | "\\" ( ["\\/bfnrt]
                                   | "u" [0-9a-fA-F]{4} )
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+-]? [0-9]+)?
gap    ::= [ \t\n\r]*
"""

ARITHMETIC = r"""
root    ::= (sum "=" blank sum "\n")+
sum     ::= product ([+-] blank product)*
product ::= power ([*/] blank power)*
power   ::= (name | number | "(" blank sum ")") blank
name    ::= [a-z] [a-z0-9_]*
number  ::= [0-9]{1,15}
blank   ::= " "*
"""

LIST = r"""
root ::= line{1,}
line ::= "- " [^\r\n\x0b\x0c\x85\u2028\u2029]+ "\n"
"""

CHESS = r"""
root   ::= first (later)*
first  ::= "1. " half " " half "\n"
later  ::= [1-9] [0-9]? ". " half " " half "\n"
half   ::= (pawn | piece | "O-O" "-O"?) [+#]?
pawn   ::= ([a-h] "x")? square ("=" [NBRQ])?
piece  ::= [NBRQK] [a-h]? [1-8]? "x"? square
square ::= [a-h] [1-8]
"""

C = r"""
root      ::= function (gap function)*
function  ::= type " " name "(" (type " " name (", " type " " name)*)? ")" gap block
type      ::= "int" | "float" | "char"
block     ::= "{" gap (statement gap)* "}"
statement ::= type " " name " = " sum ";" | name " = " sum ";" | call ";" | "return " sum ";" |
              "while (" test ")" gap block | "if (" test ")" gap block (gap "else" gap block)? |
              "//" [^\n]* "\n" | "/*" ([^*] | "*" [^/])* "*/"
test      ::= sum " " ("<" | "<=" | "==" | "!=" | ">=" | ">") " " sum
sum       ::= product (" " [+-] " " product)*
product   ::= factor (" " [*/] " " factor)*
factor    ::= name | [0-9]+ | "-" factor | call | "(" sum ")"
call      ::= name "(" (sum (", " sum)*)? ")"
name      ::= [a-zA-Z_] [a-zA-Z_0-9]*
gap       ::= [ \t\n]*
"""

JAPANESE = r"""
root  ::= kana+ ([ \t\n] kana+)*
kana  ::= [ぁ-ゟ] | [ァ-ヿ] | [、-〾] | [一-鿿]
"""

CALL = r"""
root   ::= "<call>\n{\"name\": \"" name "\", \"arguments\": " object "}\n</call>"
name   ::= "weather" | "search" | "search_web"
object ::= "{" (pair (", " pair)*)? "}"
pair   ::= string ": " (string | number | object | "[" (string (", " string)*)? "]")
string ::= "\"" ([^"\\\x00-\x1f] | "\\" ["\\/bfnrt])* "\""
number ::= "-"? [0-9]+ ("." [0-9]+)?
"""

TABLE = r"""
root ::= row+
row  ::= cell ("," cell)* "\n"
cell ::= [^",\n]* | "\"" ([^"] | "\"\"")* "\""
"""

EXAMPLES = {
    "C": (
        C,
        ["int main() {}", "char f(int a, float b) {\n\tint x = -a * (b + 2);\n\twhile (x <= f(x, 1)) { x = 3; }\n\treturn x;\n}\n".rstrip(), "int f(){// no\n/* a * b */if (1 < 2){}else{g();}}"],
        ["", "int main()", "int main() {", "int f() {x = ;}", "int f() {return 1}", "void f() {}", "int f(){/* a */ */}"],
    ),
    "Japanese": (JAPANESE, ["日本語、カタカナ ひらがな", "ー"], ["", "a", "日本 ", " 日", "日\n\n本"]),
    "a call of a tool": (
        CALL,
        ['<call>\n{"name": "search_web", "arguments": {"q": "a \\"b\\"", "n": -3.5, "t": ["x", "é"], "o": {}}}\n</call>'],
        ["", '<call>\n{"name": "find", "arguments": {}}\n</call>', '<call>\n{"name": "search", "arguments": {"a": }}\n</call>'],
    ),
    "a table": (TABLE, ["a,b\n", ",\n", 'x,"a ""b"", c\n"\n1,,3\n'], ["", "a", 'a"b\n', '"a"b\n', '"a\n']),
    "json": (
        JSON,
        ["{}", "[1, -2.5e+3, null, true]", ' {"a":\t{"b": ["x\\n\\u00e9", "日本"]}}\n', '"\\ud83d"', "0"],
        ["", "{", '{"a"}', "[1,]", "01", '"\n"', "nul", "1 2", "[1] ]", "{a: 1}"],
    ),
    "arithmetic": (
        ARITHMETIC,
        ["1=1\n", "x = 2 * (y + 3)\n", "a_1+b/2 - 3= (((4)))\n7=7\n"],
        ["1=1", "=1\n", "x = 2 * (y + 3\n", "1 = 1 = 1\n", "X=1\n", "1234567890123456=1\n"],
    ),
    "list": (
        LIST,
        ["- a\n", "- milk\n- 日本 (two)\n- é\n"],
        ["", "- \n", "- a", "a\n", "- a\n\n", "-a\n", "- a\u2028b\n"],
    ),
    "chess": (
        CHESS,
        ["1. e4 e5\n", "1. e4 e5\n2. Nf3 Nc6\n3. Bb5 a6\n", "1. d4 d5\n2. O-O exd8=Q+\n10. Nbxd2 O-O-O#\n"],
        ["", "1. e4\n", "1. e4 e5", "2. e4 e5\n", "1. e9 e5\n", "1. e4 e5\n100. e4 e5\n", "1. O-O-O-O e5\n"],
    ),
}  # fmt: skip
"""By name: the grammar, texts of it, texts that are none of it."""


REFUSED = [
    ("", "line 1, column 1: expected a rule named root, got the end without one"),
    ('a ::= "b"\n', "line 2, column 1: expected a rule named root"),
    ('Root ::= "b"', "line 1, column 13: expected a rule named root"),
    ("root", "line 1, column 5: expected ::= after the name of a rule, got the end"),
    ('root := "a"', "line 1, column 7: expected ::= after the name of a rule, got ="),
    ('root\n::= "a"', "line 1, column 5: expected ::= after the name of a rule, got a line break"),
    ('"a"', 'line 1, column 1: expected the name of a rule, got "'),
    ('root ::= "a"\n"b"', 'line 2, column 1: expected the name of a rule, got "'),
    ("root ::= item\n\nx ::= item", "line 1, column 10: expected a rule that is defined, got item"),
    ('root ::= "a"\nroot ::= "b"', "line 2, column 1: expected each rule once, got a second root"),
    # left recursion, direct, through others, and behind what may be empty
    ('root ::= root "a" | ""', "line 1, column 10: expected no left recursion, got root, which begins with root"),
    ('root ::= sum\nsum ::= sum "+" "1" | "1"', "line 2, column 9: expected no left recursion, got sum, which begins with sum"),
    ('root ::= a "x"\na ::= ("b" | c)\nc ::= a?', "line 3, column 7: expected no left recursion, got a, which begins with c, which begins with a"),
    ('root ::= "a"* root "b"', "line 1, column 15: expected no left recursion, got root"),
    ('root ::= ws root | "a"\nws ::= " " | blank\nblank ::= ""{2}', "line 1, column 13: expected no left recursion, got root"),
    ("root ::= (root)*", "line 1, column 11: expected no left recursion, got root"),
    ('root ::= "a"\nspare ::= spare', "line 2, column 11: expected no left recursion, got spare"),
    # groups, classes, literals
    ('root ::= ("a"', "line 1, column 14: expected ) at the end of a group, got the end"),
    ('root ::= ("a"\nb ::= "c"', "line 2, column 3: expected a literal, class, rule, group or the end of the rule, got :"),
    ('root ::= "a")', "line 1, column 13: expected a ( before it, got )"),
    ("root ::= [a", "line 1, column 12: expected ] at the end of a class, got the end"),
    ("root ::= [a-", "line 1, column 13: expected ] at the end of a class, got the end"),
    ("root ::= []", "line 1, column 11: expected a character of the class"),
    ("root ::= [^]", "line 1, column 12: expected a character of the class"),
    ("root ::= [z-a]", "line 1, column 11: expected a range from a lower character to a higher one"),
    ('root ::= "a', 'line 1, column 12: expected " at the end of a literal, got the end'),
    ("root ::= 'a'", "line 1, column 10: expected a literal, class, rule, group or the end of the rule, got '"),
    (r'root ::= "\q"', r"line 1, column 12: expected an escape: \t \r \n"),
    ('root ::= "\\', "line 1, column 12: expected an escape"),
    (r'root ::= "\xg0"', "line 1, column 13: expected a hexadecimal digit"),
    (r"root ::= [\u12]", "line 1, column 15: expected a hexadecimal digit"),
    (r'root ::= "\ud83d\ude00"', "line 1, column 11: expected a whole character, got half of a surrogate pair"),
    (r"root ::= [a-\U00110000]", r"line 1, column 13: expected a character up to \U0010FFFF"),
    # repetitions
    ("root ::= *", "line 1, column 10: expected a literal, class, rule or group before it, got *"),
    ('root ::= "a" | +', "line 1, column 16: expected a literal, class, rule or group before it, got +"),
    ('root ::= "a"{', "line 1, column 14: expected a number of repetitions, got the end"),
    ('root ::= "a"{,3}', "line 1, column 14: expected a number of repetitions, got ,"),
    ('root ::= "a"{2', "line 1, column 15: expected } at the end of {m}, {m,} or {m,n}, got the end"),
    ('root ::= "a"{3,2}', "line 1, column 13: expected {m,n} with m no larger than n"),
    ('root ::= "a"{2001}', "line 1, column 14: expected at most 2000 repetitions"),
    ('root ::= "é"\n  "a"{1,99999999999999999999}', "line 2, column 3: expected the name of a rule"),
    ('root ::= ("é"\n  "a"{1,99999999999999999999})', "line 2, column 9: expected at most 2000 repetitions"),
    # llama.cpp's tokens
    ("root ::= <[1000]>", "line 1, column 10: expected a literal, class, rule or group: this guest does not match tokens by id or name, got <[1000]>"),
    ("root ::= !<think>*", "line 1, column 10: expected a literal, class, rule or group: this guest does not match tokens by id or name, got !<think>"),
    # columns are characters, whatever their bytes; line breaks of all kinds
    ('root ::= "日本" é', "line 1, column 15: expected a literal"),
    ('a ::= "b"\r\nb ::= "c"\rroot ::= $', "line 3, column 10: expected a literal"),
    # nothing fits
    ('root ::= "a" root', "some text fits"),
    (r"root ::= [^\x00-\U0010FFFF]", "some text fits"),
]  # fmt: skip
"""What the guest refuses, and a part of its words."""


def random_grammar(rng: random.Random, *, empties: bool = True) -> str:
    """Some rules that name each other, but at its beginning none an earlier one: so there is no left recursion.

    Args:
        rng: What is drawn from.
        empties: Whether the empty text may be written, and repeated: llama.cpp takes most of that for left recursion.
    """
    names = ["root", "a-b", "C", "d0"][: rng.randint(1, 4)]
    atoms = ['"a"', '"ab"', "[ab]", "[^a]", ".", '"é"', "[a-c日]", '"1"', "[0-9]", r'[^"\\]', r'"\""', r'"\n"']
    quantifiers = ["", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}"]
    if empties:
        atoms.append('""')
        quantifiers.append("?*")
    texts = [atom for atom in atoms if atom != '""']  # followed by nothing, each of them reads a character

    def atom(rule: int, depth: int, *, first: bool) -> str:
        if depth < 3 and rng.random() < 0.25:
            return "(" + alternatives(rule, depth + 1, first=first) + ")"
        others = names[rule + 1 :] if first else names
        return rng.choice(others if others and rng.random() < 0.3 else atoms)

    def sequence(rule: int, depth: int, *, first: bool) -> str:
        parts = []
        for _ in range(rng.randint(0 if depth and empties else 1, 4)):
            parts.append(atom(rule, depth, first=first) + rng.choice(quantifiers))
            first = first and parts[-1] not in texts
        return " ".join(parts)

    def alternatives(rule: int, depth: int, *, first: bool) -> str:
        return " | ".join(sequence(rule, depth, first=first) for _ in range(rng.randint(1, 3)))

    # each rule can end without itself
    return "\n".join(f'{name} ::= {alternatives(i, 0, first=True)} | "{"ab"[i % 2]}"' for i, name in enumerate(names))
