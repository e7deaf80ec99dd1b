"""Short templates, one for each thing that Jinja can do, as transformers' apply_chat_template renders them.

    python python/data/make_jinja.py > tests/fixtures/jinja.json

Written with transformers 5.24.0 and jinja2 3.1.6. Every filter, test, function and method that the environment has is in
some template, or else in EXCLUDED with the reason; the script checks that. The cases that raise have the exception.
"""

import copy
import json
import re
import sys

import jinja2
from transformers.utils import chat_template_utils

VALUES = dict(
    text="Hello, Wörld",
    word="oLé",
    spaced="  two  words\n\tand tabs \n",
    lines="one\ntwo\n\nthree",
    long="The quick brown fox jumps over the well-known lazy dog",
    html="<b class=\"x\">it's & it</b>",
    foreign="ß漢字 é 😀",
    empty="",
    number=7,
    zero=0,
    negative=-3,
    big=9007199254740993,
    ratio=2.5,
    whole=2.0,
    small=1e-7,
    huge=1e22,
    yes=True,
    no=False,
    nothing=None,
    numbers=[3, 1, 2],
    words=["b", "A", "c", "a"],
    mixed=[1, "a", None, True, 2.5, [], {}],
    nested=[[1, 2], [3, [4]]],
    nobody=[],
    person={"name": "Ann", "age": 41, "items": "things", "home": {"city": "Oslo", "code": None}},
    counts={"b": 2, "a": 1, "C": 3},
    blank={},
    messages=[
        {"role": "system", "content": "Be brief. "},
        {"role": "user", "content": "What floats?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": {"word": "cork", "most": 2}}}
            ],
        },
        {"role": "tool", "content": '{"found": true}', "tool_call_id": "c1"},
        {"role": "assistant", "content": "<think>\nWood is light.\n</think>\n\nA cork."},
        {"role": "user", "content": [{"type": "text", "text": "And this?"}, {"type": "image"}]},
    ],
    functions=[
        {
            "type": "function",
            "function": {
                "name": "look_up",
                "description": "Looks up a word.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "word": {"type": "string", "description": "The <word>"},
                        "most": {"type": ["integer", "null"], "enum": [1, 2]},
                    },
                    "required": ["word"],
                },
            },
        }
    ],
    tools=None,
    documents=None,
    add_generation_prompt=True,
    bos_token="<s>",
    eos_token="</s>",
)

# What has no case, and why.
EXCLUDED = {
    "filter random": "another value each time",
    "filter urlize": "makes links of HTML, with long rules of its own",
    "global lipsum": "another text each time",
    "global strftime_now": "depends on the day; chat_templates.json has it, with a fixed one",
}

# Every test without an argument is tried on each of these, and every filter of SWEPT on the first six.
KINDS = ["word", "numbers", "counts", "nothing", "missing", "number", "ratio", "yes"]
TESTS_WITH_ARGUMENTS = "divisibleby in sameas eq equalto ne lt lessthan le gt greaterthan ge == != < <= > >=".split()
SWEPT = """
abs
batch(2) | list
capitalize
default('x', true)
dictsort
first
float
indent
int
items | list
join('-')
last
length
list
lower
map('string') | list
max
replace('L', 'l')
reverse | list
round
slice(2) | list
sort
sum
title
tojson
trim
unique | list
upper
""".strip().split("\n")

# Expressions, one a line; each case is the expression within braces.
LITERALS = r"""
1
-1
+1
1_000
0x1F
0o17
0b101
123456789012345678901234567890
9223372036854775807
9223372036854775808
-9223372036854775808
1.0
1e5
1.5e-7
0.0001
0.00001
1e15
1e16
1e20
1e400
1_0.2_5
0.1 + 0.2
-0.0
1 / 3
2.5e-324
true
True
False
none
null
[true, false, none]
'a' "b"
'it''s'
'say "hi"'
'it\'s'
'a\nb'
'a\tb'
'a\\b'
'a\rb'
'\x41'
'\u00e9'
'\U0001F600'
'\N{DIGIT ONE}'
'\101'
'\0' | length
'\a\b\f\v' | length
'\q'
'\/'
'\x4'
'\u12'
'é漢😀'
'{{ x }}'
'{% if %}'
'{# no #}'
'%}'
()
(1)
(1,)
1, 2
1, 2,
(1, 'a', none)
[]
[[1], [2, [3]]]
{}
{'a': {'b': {'c': 1}}}
{'a': 1, 'a': 2}
{1: 'x', 'b': 2.0, none: 3, true: 4}
{1.5: 1, (1, 2): 3}
{[1]: 2}
{'a': 1,}
{text: number}
[1
{'a' 1}
1 2
"""

PRINTED = r"""
text
nothing
missing
yes
number
big
ratio
whole
small
huge
numbers
words
mixed
nested
person
counts
nobody
blank
messages[2]
[missing]
[1.0, 1e20, 0.1]
["a'b"]
['a"b']
['a"\'b']
['a\nb\tc\rd']
['a\\b']
['\x00\x1f\x7f']
['\x80\xa0\xad']
['é漢😀']
['\u200b\u2028\ufeff']
['\ue000\U000E0001']
[('a',), ()]
[range(3)]
{'a': 'é', "b'": [none, true]}
range(3)
range(1, 9, 2)
counts.keys()
counts.values()
counts.items()
namespace(a=1, b='x')
['<' | escape]
"""

OPERATORS = r"""
1 + 2
1 + 2.0
1 - 2
2 * 3
2 * 1.5
7 / 2
4 / 2
7 // 2
-7 // 2
7 // -2
7.5 // 2
-7.5 // 2
7 % 3
-7 % 3
7 % -3
7.5 % 2
-7.5 % 2
2 ** 10
2 ** -1
2 ** 0.5
2.0 ** 3
2 ** 100
10 ** 20
-2 ** 2
2 ** 3 ** 2
2 ** -1 ** 2
9223372036854775807 + 1
-9223372036854775807 - 2
9223372036854775807 * 2
big * big
big + 0.0
1 / 0
1 // 0
1 % 0
0 ** -1
true + true
true * 3
true - 0.5
-true
-none
+'a'
'a' + 'b'
'a' + 1
1 + 'a'
'a' + none
'a' + missing
missing + 'a'
'ab' * 3
3 * 'ab'
'ab' * -1
'ab' * 1.5
[0] * 3
(1, 2) * 2
[1] + [2]
[1] + (2,)
(1,) + (2,)
{'a': 1} + {'b': 2}
'%s' % text
'%s and %d' % ('a', 3)
'%5.2f|%-5s|%05d|%x' % (3.14159, 'a', 42, 255)
'%r %s' % ('a', none)
'%(name)s is %(age)d' % person
'%d%%' % 5
'%s' % [1, 'a']
'%d' % 'a'
'%s %s' % 'a'
'%s' % ('a', 'b')
'%+d % d %e %g' % (1, 2, 1500, 0.00001)
'a' ~ 'b'
1 ~ 2
'a' ~ 1 ~ none ~ true ~ 1.0 ~ missing
'a' ~ [1, 'b', none]
'a' ~ {'k': none, 'l': 'é'}
'a' ~ (1,)
1.0 ~ 1e20 ~ 0.1
'a' ~ 2 * 3
'a' ~ 2 + 3
1 + 2 ~ 3
10 % 4 ~ 'a'
'<' | escape ~ '<'
('<' | escape) ~ '<'
('<' | escape) + '<'
'<' + ('<' | escape)
'%s' | escape % '<'
(1 + 2) * 3
1 + 2 * 3
2 * 3 % 4
10 - 2 - 3
100 / 10 / 2
-1 | abs
(-1) | abs
-1.5 | abs
-'3' | int
-number ** 2
- number + 10
1 + 1 | string
1 + 2 | abs ~ 'x'
'a' + 'b' | upper
('a' + 'b') | upper
'a' ~ 'b' | upper
not true | string
not ''
not 'a'
not missing
not not 1
not 1 == 2
not 1 in [1]
1 not in [1]
1 and 2
0 and 2
1 or 2
0 or 2
'' or none
none or 'x'
[] or {}
missing or 'x'
missing and 'x'
1 and 'a' or 'b'
0 or 1 and 2
true and not false
true or missing.x
1 if true
1 if false
(1 if false) is undefined
1 if false else 2
1 if false else 2 if false else 3
1 if true else missing.x
1 if [] else 2
1 if '0' else 2
1 if 0.0 else 2
'a' ~ 'b' if true else 'c'
('a' if yes) ~ ('b' if no)
[1 if true else 2, 3]
true && false
1 | 2
a = 1
"""

COMPARISONS = r"""
1 == 1
1 == 1.0
1 == true
0 == false
2 == true
1 == '1'
'a' == 'a'
'a' == 'A'
none == none
none == false
none == missing
none == 0
missing == missing
missing == absent
missing == ''
missing != 1
[1, 2] == [1, 2]
[1] == [1.0]
(1,) == [1]
(1, 2) == (1, 2)
{'a': 1, 'b': 2} == {'b': 2, 'a': 1}
{} == []
'' == []
('a' | escape) == 'a'
1 != 2
1 < 2
2 <= 2
3 > 2.5
2 >= 3
'a' < 'b'
'a' < 'B'
'é' > 'z'
'a' < 1
1 < 'a'
1 < none
none < none
missing < 1
true < 2
[1, 2] < [1, 3]
[1, 2] < [1, 2, 0]
(1, 'a') < (1, 'b')
[1] < ['a']
{} < {}
1 < 2 < 3
1 < 3 < 2
3 > 2 > 1
1 == 1 == 1
1 < 2 == 2
1 == true in [true]
1 in [1, 2]
1.0 in [1, 2]
true in [1]
'1' in [1]
none in mixed
[] in mixed
'a' in 'cat'
'' in 'cat'
'A' in 'cat'
1 in 'cat'
none in 'cat'
'name' in person
'Ann' in person
1 in person
'a' in none
'a' in missing
missing in [1]
missing in [missing]
missing in 'cat'
missing in person
2 in range(3)
2.0 in range(3)
'x' in range(3)
1 in (1,)
'a' not in 'cat'
not 'a' in 'cat'
'a' in 'cat' and 'b' in 'cat'
'role' in messages[0]
'tool_calls' in messages[0]
('a', 1) in {'a': 1}.items()
'a' in {'a': 1}.keys()
1 in {'a': 1}.values()
[1] in nested
[1, 2] in nested
9007199254740993 == 9007199254740992.0
big == 9007199254740992
"""

ACCESS = r"""
person.name
person['name']
person["na" ~ "me"]
person.home.city
person['home']['city']
person.home['city']
person.home.code
person.nope
person['nope']
person.nope.more
person.nope['more']
person['nope'].more
person['items']
person.items()
person.items is callable
person['items'] is callable
person['keys']()
person['get']('name')
person.keys is callable
person.name.upper()
person[0]
person[none]
person[missing]
person[[1]]
person.1
{1: 'a'}[1]
{1: 'a'}[1.0]
{1: 'a'}[true]
{'1': 'a'}[1]
{1: 'a'}['1']
{1: 'a'}.1
{none: 'a'}[none]
{(1, 2): 'a'}[1, 2]
missing.x
missing['x']
missing[0]
missing()
missing.x is defined
nothing.x
nothing['x']
nothing.x is defined
nothing[0]
number.x
number[0]
yes.x
text.x
text[0]
text[-1]
text[99]
text[-99]
text['upper']()
text['x']
text[1.0]
text[true]
numbers[0]
numbers[-1]
numbers[3]
numbers[-4]
numbers[3] is defined
numbers['0']
numbers['x']
numbers.0
numbers.x
numbers[1.0]
numbers[true]
numbers[none]
numbers[missing]
messages.0.role
messages[0].role
messages[0]['role']
messages[-1]['content'][0].text
messages[2].tool_calls[0].function.arguments.word
messages[9].role
messages[9] is defined
messages.role
nested[1][1][0]
(1, 2)[0]
(1, 2)[-1]
(1, 2)[2]
range(5)[2]
range(5)[-1]
range(5)[9]
[1, 2][0]
'abc'[1]
{'a': 1}.a
{'a': 1}['a']
'a-b'.split('-')[1]
text[1:4]
text[:5]
text[7:]
text[-5:]
text[:-5]
text[::-1]
text[::2]
text[1:8:3]
text[8:1:-3]
text[99:]
text[5:2]
text[:]
text[none:3]
text[:none]
text[::0]
text['a':]
text[1.0:]
foreign[1:4]
foreign[-1:]
foreign[::-1]
numbers[1:]
numbers[:-1]
numbers[::-1]
numbers[::2]
numbers[-2:]
numbers[5:]
numbers[-9:9]
numbers[1:2, 0]
messages[1:][0].role
messages[::-1][0].role
messages[:-1] | length
range(9)[1:7:2]
range(9)[::-1] | list
(1, 2, 3)[1:]
person[1:]
nothing[1:]
missing[1:]
number[1:]
"""

FUNCTIONS = r"""
range(3) | list
range(1, 3) | list
range(5, 0, -2) | list
range(0) | list
range(-2) | list
range(0, 3, 0) | list
range(3) | length
range('3')
range(2.0)
range(none)
range(missing)
range()
range(100000) | length
range(100001)
range(3) == range(0, 3)
range(3).start
range(1, 3).stop
range(1, 9, 2).step
range(1, 9, 2).index(5)
range(1, 9, 2).count(5)
dict()
dict(a=1, b='x')
dict([('a', 1), ('b', 2)])
dict({'a': 1}, b=2)
dict(person, name='Bo').name
dict(**counts)
dict(**counts, d=4)
dict(1)
dict.fromkeys(['a', 'b'], 0)
dict(a=1).items() | list
namespace()
namespace(a=1).a
namespace({'a': 1}, b=2).b
namespace(a=1).b
namespace(a=1)['a']
namespace(_a=1)
namespace(a=1) is mapping
joiner()()
joiner('; ')() ~ 'a'
cycler('a', 'b').next()
cycler('a', 'b').current
cycler('a', 'b').reset()
cycler()
raise_exception('No such role: ' ~ messages[0].role)
raise_exception(missing)
raise_exception()
text()
nothing()
absent(1)
print('a')
self
super()
loop
varargs
caller()
"""

REFUSED = r"""
text.__class__
text['__class__']
text.__class__.__mro__
text | attr('__class__')
missing.__class__
person.__len__()
numbers.__getitem__(0)
numbers.__len__
range.__init__
dict.__class__
namespace.__init__
cycler.__init__.__globals__
raise_exception.__globals__
'{0.__class__}'.format(text)
'{x.__class__}'.format(x=text)
'{0[0]}'.format(numbers)
person._private
"""

# Methods by type; each type's are checked to be complete.
METHODS = dict(
    str=r"""
text.upper()
text.lower()
'ÀẞǅI'.lower()
'ßŉ'.upper()
text.capitalize()
'hELLO wORLD'.capitalize()
''.capitalize()
'ßx'.capitalize()
text.casefold()
'Straße'.casefold()
"they're bill's 3rd x-ray".title()
'hELLO'.title()
text.swapcase()
'ab'.center(6)
'ab'.center(5, '*')
'ab'.ljust(4) ~ '|'
'ab'.ljust(4, '.')
'ab'.rjust(4)
'ab'.rjust(4, '0')
'ab'.rjust(1)
'ab'.rjust(4, 'xy')
'42'.zfill(5)
'-42'.zfill(5)
'+4'.zfill(1)
text.count('l')
'aaaa'.count('aa')
text.count('l', 3)
text.count('')
text.find('l')
text.find('z')
text.find('l', 4)
text.find('l', 0, 2)
'é漢a'.find('a')
text.rfind('l')
text.rfind('o', 0, 5)
text.index('W')
text.index('z')
text.rindex('l')
text.rindex('z')
text.startswith('He')
text.startswith('he')
text.startswith(('x', 'He'))
text.startswith(['He'])
text.startswith('l', 2)
text.startswith('')
text.startswith(missing)
text.startswith(none)
text.endswith('ld')
text.endswith(('x', 'd'))
text.endswith('l', 0, 4)
spaced.strip()
spaced.lstrip()
spaced.rstrip()
'xxaxx'.strip('x')
'xyaxy'.strip('yx')
'xxaxx'.lstrip('x')
'xxaxx'.rstrip('x')
'\n\na\n'.strip('\n')
' a '.strip(none)
'\u3000\xa0a\x1c\x85'.strip()
'\u200ba'.strip() | length
' a '.strip('')
'Be brief.'.removeprefix('Be ')
'Be brief.'.removeprefix('x')
'Be brief.'.removesuffix('.')
'Be brief.'.removesuffix('')
text.replace('l', 'L')
text.replace('l', 'L', 1)
text.replace('', '-')
text.replace('l', '')
text.replace('l', 'L', 0)
text.replace('l', 'L', -1)
text.replace('l', 'L', count=1)
text.replace('l')
text.replace('l', none)
spaced.split()
spaced.split(' ')
'a,b,c'.split(',')
'a,b,c'.split(',', 1)
'a,b,c'.split(',', maxsplit=1)
'a,b,c'.split(sep=',')
'a b  c'.split(none, 1)
'a b  c '.split(maxsplit=1)
''.split()
''.split(',')
'a--b'.split('--')[-1]
'abc'.split('')
'a,b,c'.split(',', 0)
'abc'.split(1)
'a,b,c'.rsplit(',', 1)
'a b  c'.rsplit()
'a b  c'.rsplit(none, 1)
'a b  c'.rsplit(' ', 1)
lines.splitlines()
'a\r\nb\rc\n'.splitlines()
'a\nb\n'.splitlines(true)
'a\x0bb\x0cc\u2028d\x85e'.splitlines()
''.splitlines()
'a=b=c'.partition('=')
'abc'.partition('=')
'abc'.partition('')
'a=b=c'.rpartition('=')
'abc'.rpartition('=')
', '.join(words)
', '.join(numbers)
''.join(['a', 'b'])
'-'.join('abc')
'-'.join(person)
'-'.join(missing)
'-'.join(none)
', '.join(words | map('upper'))
'{} {}'.format('a', 1)
'{1} {0}'.format('a', 'b')
'{a}-{b}'.format(a=1, b='x')
'{:>5}|{:<5}|{:^5}|'.format('a', 'b', 'c')
'{:05d} {:.2f} {:x} {:,}'.format(42, 3.14159, 255, 1234567)
'{:*^7}'.format('a')
'{!r} {!s}'.format('a', none)
'{0.name} {0[name]}'.format(person)
'{p[name]}'.format(p=person)
'{{}} {}'.format(1)
'{} {}'.format('a')
'{a}'.format()
'{:.3}|{:%}|{:e}|{:+}'.format('abcdef', 0.25, 1500.0, 3)
'{}'.format(none) ~ '{}'.format(true) ~ '{}'.format([1, 'a'])
'{'.format(1)
'{name}'.format_map(person)
'{nope}'.format_map(person)
text.isalpha()
'abcé'.isalpha()
''.isalpha()
'abc1'.isalnum()
'a b'.isalnum()
'123'.isdigit()
'1²'.isdigit()
'-1'.isdigit()
'٣'.isdecimal()
'1²'.isdecimal()
'½'.isnumeric()
'ab'.islower()
'a1'.islower()
'1'.islower()
'AB'.isupper()
'Ab'.isupper()
'Ab Cd'.istitle()
'Ab cd'.istitle()
' \n\t'.isspace()
''.isspace()
'abc'.isascii()
'é'.isascii()
'a_1'.isidentifier()
'1a'.isidentifier()
'a\n'.isprintable()
'aé'.isprintable()
'a\tb'.expandtabs()
'a\tb'.expandtabs(4)
text.encode()
text.encode('ascii')
'é'.encode('latin-1')
'abc'.maketrans('a', 'b')
'abc'.translate({97: 'x', 98: none})
text.nope()
text.upper(1)
'a'.upper().lower().title()
number.upper()
nothing.strip()
missing.strip()
person.nope.strip()
""",
    list=r"""
numbers.append(4)
numbers.clear()
numbers.copy()
numbers.count(1)
mixed.count(1)
words.count('z')
numbers.extend([4])
numbers.index(1)
numbers.index(9)
numbers.index(2, 1)
numbers.insert(0, 4)
numbers.pop()
numbers.remove(1)
numbers.reverse()
numbers.sort()
""",
    tuple=r"""
(1, 2, 1).count(1)
(1, 2, 1).index(2)
(1, 2).index(3)
(1, 2).append(3)
""",
    dict=r"""
counts.clear()
counts.copy()
counts.fromkeys(['x', 'y'])
counts.fromkeys(['x'], 1)
counts.get('a')
counts.get('z')
counts.get('z', 0)
counts.get('z', default=0)
counts.get('z') is none
counts.get('z', {}).get('y', 'x')
counts.get()
counts.get([1])
person.get('home').get('code', 'x')
counts.items()
counts.items() | list
counts.items() | length
counts.items()[0]
(counts.items() | list)[0][1]
counts.items(1)
counts.keys() | list
counts.keys() | join(',')
counts.keys()[0]
(counts.keys() | list)[-1]
counts.values() | list
counts.values() | sum
counts.pop('a')
counts.popitem()
counts.setdefault('a', 1)
counts.update({'d': 4})
counts.nope()
blank.items() | list
""",
    int=r"""
(5).bit_length()
(255).bit_count()
(6).as_integer_ratio()
(5).conjugate()
(5).denominator
(5).numerator
(5).real
(5).imag
(258).to_bytes(2, 'big')
(0).from_bytes(text.encode(), 'big') > 0
number.nope
number.nope()
yes.real
""",
    float=r"""
ratio.as_integer_ratio()
ratio.conjugate()
ratio.hex()
ratio.fromhex('0x1.8p1')
ratio.imag
ratio.real
ratio.is_integer()
whole.is_integer()
""",
)

FILTERS = r"""
-3.5 | abs
'a' | abs
person | attr('name')
person | attr('keys') is defined
person | attr('nope') is defined
namespace(a=1) | attr('a')
[1, 2, 3, 4, 5] | batch(2) | list
[1, 2, 3, 4, 5] | batch(2, 'x') | list
[1, 2, 3] | batch(linecount=2, fill_with=0) | list
[1, 2, 3] | batch(0) | list
'abc' | batch(2) | list
'hELLO wORLD' | capitalize
'ab' | center(6)
'ab' | center(width=5) ~ '|'
'ab' | center | length
12 | center(6) ~ '|'
foreign | count
missing | default
missing | default('x')
missing | default(default_value='x')
nothing | default('x')
nothing | default('x', true)
nothing | default('x', boolean=true)
nothing | d('x', true)
missing | d([])
empty | default('x')
empty | default('x', true)
zero | default('x', true)
no | default('x', true)
nobody | default('x', true)
person.nope | default('x')
person.home.nope | default('x')
missing.x | default('x')
messages[9] | default('x')
missing | default(absent)
counts | dictsort
counts | dictsort(true)
counts | dictsort(case_sensitive=true)
counts | dictsort(false, 'value')
counts | dictsort(by='value', reverse=true)
counts | dictsort(reverse=true)
counts | dictsort(by='x')
{1: 'a', 'b': 2} | dictsort
html | e
html | escape
html | forceescape
none | escape
html | safe
('<' | escape) | replace('&', '+')
('<' | safe) ~ '<'
('<a>' | escape) | length
1000 | filesizeformat
1 | filesizeformat
2500000 | filesizeformat
2500000 | filesizeformat(true)
1024 | filesizeformat(binary=true)
'1500' | filesizeformat
text | first
nobody | first is defined
range(3) | first
'' | last is defined
range(3) | last
messages | last | tojson
(messages | first).role
'1.5' | float
' 2 ' | float
'x' | float
'x' | float(1.5)
'x' | float(default=none)
'1e3' | float
'inf' | float
'nan' | float
'1_0' | float
true | float
none | float(2)
12 | float
'%s-%s' | format('a', 1)
'%(a)s' | format(a=1)
'%.2f' | format(3.14159)
'%5d|%-5d|' | format(3, 4)
'%s' | format
'%s' | format('a', b=1)
'%d' | format('a')
messages | groupby('role') | map(attribute='grouper') | list
messages | groupby(attribute='role') | map('first') | list
(messages | groupby('role'))[0].list | length
[{'a': 'x'}, {'a': 'X'}, {}] | groupby('a', default='z')
[{'a': 'x'}, {'a': 'X'}] | groupby('a', case_sensitive=true)
[{'a': 'x'}, {}] | groupby('a')
[[1, 'a'], [1, 'b'], [0, 'c']] | groupby(0)
lines | indent
lines | indent(2)
lines | indent(2, true)
lines | indent(2, first=true, blank=true)
lines | indent(width=2, blank=true)
lines | indent('> ')
lines | indent('> ', true, true)
'a\n' | indent(2)
'a\r\nb' | indent(2)
'' | indent(2, true)
5 | indent(2)
'42' | int
' 42 ' | int
'-4' | int
'4.9' | int
4.9 | int
-4.9 | int
'x' | int
'x' | int(-1)
'x' | int(default=none)
'0x1A' | int(0, 16)
'1A' | int(base=16)
'101' | int(0, 2)
'1_000' | int
true | int
none | int(3)
[] | int
1e20 | int
1e400 | int
'99999999999999999999' | int
'٣' | int
missing | int(4)
counts | items | list
blank | items | list
missing | items | list
numbers | items | list
words | join
words | join(', ')
words | join(d='+')
words | join(', ', attribute=0)
numbers | join(', ')
mixed | join('|')
messages | join('/', attribute='role')
messages | join('/', 'role')
messages[2].tool_calls | join(attribute='function.name')
person | join(',')
'abc' | join('-')
nobody | join('x')
[missing, 1] | join('-')
['<', '<' | escape] | join('&')
words | join(1)
text | length
foreign | length
person | length
(1, 2) | length
messages | length - 1
'abc' | list
person | list
counts.items() | list
(1, 2) | list
range(2) | list
'ÀÉ' | lower
5 | lower
none | upper
'straße' | upper
messages | map(attribute='role') | list
messages | map(attribute='content.0.text') | list
messages | map(attribute='nope') | list
nested | map(attribute=0) | list
nested | map(attribute='1') | list
words | map('upper') | join
numbers | map('string') | list
words | map('replace', 'a', 'x') | list
words | map('default') | list
['a\nb'] | map('indent', width=2, first=true) | list
messages | map('items') | map('list') | map('length') | list
words | map('nope') | list
words | map() | list
words | map(upper) | list
words | max
words | min
words | max(case_sensitive=true)
words | min(true)
numbers | max
messages | max(attribute='role') | tojson
messages | map(attribute='role') | min
[{'n': 2}, {'n': 1}] | min(attribute='n')
['a', 1] | max
nobody | max is defined
counts | max
person | pprint
html | pprint
[1, 'a', none] | pprint
numbers | reject('odd') | list
numbers | reject | list
mixed | reject('none') | list
messages | rejectattr('role', 'equalto', 'user') | map(attribute='role') | list
messages | rejectattr('tool_calls') | list | length
messages | rejectattr('tool_calls', 'defined') | list | length
messages | rejectattr('role', 'in', ['user', 'tool']) | list | length
text | replace('l', 'L')
text | replace('l', 'L', 1)
text | replace(old='l', new='L', count=2)
text | replace('', '-')
text | replace('l', 1)
text | replace(none, 'x')
text | replace('l')
123 | replace('2', 'x')
none | replace('N', 'n')
'<a>' | replace('<', '>' | escape)
text | reverse
numbers | reverse | list
counts | reverse | list
range(3) | reverse | list
(1, 2) | reverse | list
2.5 | round
3.5 | round
2.567 | round(2)
2.567 | round(precision=1)
2.1 | round(0, 'ceil')
2.9 | round(method='floor')
-2.567 | round(1, 'floor')
42 | round
42 | round(-1)
1234.5 | round(-2)
2.675 | round(2)
2.5 | round | int
2.5 | round(1, 'x')
'2.5' | round
true | round
numbers | select('odd') | list
numbers | select('greaterthan', 1) | list
numbers | select('in', [1, 2]) | list
numbers | select('divisibleby', 2) | list
mixed | select | list
mixed | select('string') | list
mixed | select('mapping') | list
mixed | select('nope') | list
numbers | select('==', 1) | list
numbers | select('!=', 1) | list
numbers | select('<', 2) | list
numbers | select('<=', 2) | list
numbers | select('>', 2) | list
numbers | select('>=', 2) | list
numbers | select('ge', 2) | list
words | select('lower') | list
messages | selectattr('role', 'equalto', 'user') | list | length
messages | selectattr('role', 'in', ['system']) | first | tojson
messages | selectattr('role', 'ne', 'user') | map(attribute='role') | join(' ')
messages | selectattr('tool_calls') | list | length
messages | selectattr('tool_calls', 'defined') | list | length
messages | selectattr('content', 'none') | list | length
messages | selectattr('content', 'string') | list | length
messages | selectattr('role', 'user') | list
messages | selectattr() | list
messages | selectattr('tool_calls.0.id', 'eq', 'c1') | list | length
nested | selectattr(0, 'gt', 1) | list
(messages | selectattr('role', 'eq', 'nobody') | list)[0] is defined
messages | selectattr('role', 'eq', 'nobody') | first is defined
[1, 2, 3, 4, 5] | slice(2) | list
[1, 2, 3, 4, 5] | slice(3, 'x') | list
[1, 2, 3] | slice(slices=2, fill_with=0) | list
[1] | slice(3) | list
[1] | slice(0) | list
'abc' | slice(2) | list
words | sort
words | sort(true)
words | sort(reverse=true, case_sensitive=true)
words | sort(case_sensitive=true)
messages | sort(attribute='role') | map(attribute='role') | list
messages | sort(attribute='role', reverse=true) | map(attribute='role') | list
[{'a': 1, 'b': 2}, {'a': 1, 'b': 1}] | sort(attribute='a,b')
nested | sort(attribute='0', reverse=true)
['a', 1] | sort
[2, 1.5, true] | sort
[none, 1] | sort
['é', 'z', 'Z'] | sort
(3, 1) | sort
'cab' | sort
messages | sort
none | string
[1, 'a'] | string
1.0 | string
text | string is string
html | striptags
'a  <!-- x -->\n b &amp; c' | striptags
numbers | sum
numbers | sum(start=10)
[{'n': 2}, {'n': 1}] | sum(attribute='n')
[{'n': 2}, {'n': 1}] | sum('n', 10)
[0.1, 0.2] | sum
[[1], [2]] | sum(start=[])
nobody | sum
words | sum
'x-ray (and "they\'re")' | title
'hELLO wORLD' | title
"it's" | title
'a_b/c' | title
5 | title
person | tojson
html | tojson
foreign | tojson
foreign | tojson(ensure_ascii=true)
foreign | tojson(true)
person | tojson(indent=2)
person | tojson(false, 4)
person | tojson(indent='--')
person | tojson(separators=(',', ':'))
counts | tojson(sort_keys=true)
counts | tojson(false, none, none, true)
{'b': {'d': 1, 'c': 2}, 'a': 3} | tojson(indent=2, sort_keys=true)
{1: 'a', none: 'b', true: 'c', 1.5: 'd'} | tojson
{(1, 2): 3} | tojson
{'b': 1, 1: 2} | tojson(sort_keys=true)
(1, (2,)) | tojson
[] | tojson(indent=2)
[{}, []] | tojson(indent=2)
[1, [2]] | tojson(2)
[1.0, 1e20, 1e-7, 0.1, 1e16] | tojson
[1e400, -1e400] | tojson
2 ** 70 | tojson
'\x00\x1f\x7f\x80\u2028/"\\\b\f\n\r\t' | tojson
'\x7f' | tojson(ensure_ascii=true)
'😀' | tojson(ensure_ascii=true)
range(2) | tojson
counts.items() | tojson
counts.items() | list | tojson
[missing] | tojson
namespace(a=1) | tojson
('<' | escape) | tojson
messages[2].tool_calls[0].function.arguments | tojson
person | tojson(colour=1)
'xxaxx' | trim('x')
'xxaxx' | trim(chars='x')
spaced | trim
'\u3000a\x1f' | trim
' a ' | trim(none)
5 | trim
long | truncate(20)
long | truncate(20, true)
long | truncate(20, false, '…')
long | truncate(length=20, killwords=true, end='')
long | truncate(52, leeway=0)
long | truncate(20, leeway=60)
long | truncate(2)
text | truncate
words | unique | list
words | unique(true) | list
words | unique(case_sensitive=true) | list
messages | unique(attribute='role') | map(attribute='role') | list
[1, 1.0, true, 2] | unique | list
[[1], [1]] | unique | list
'a b&c=é/?' | urlencode
{'a b': 'c&d', 'e': 1} | urlencode
[('a', 'b'), ('c', 'd e')] | urlencode
5 | urlencode
'two words, and-more' | wordcount
foreign | wordcount
long | wordwrap(15)
long | wordwrap(5)
long | wordwrap(width=20, break_on_hyphens=false)
long | wordwrap(15, wrapstring=' / ')
lines | wordwrap(3)
{'class': 'x', 'id': none, 'n': 1, 'q': '"'} | xmlattr
{'a': missing, 'b': 'c'} | xmlattr
{'a': 1} | xmlattr(false)
{'a': 1} | xmlattr(autospace=false)
{'a b': 1} | xmlattr
text | nope
text | upper | lower | title
text | upper()
text | trim | length | string ~ '!'
text | first | upper
text.split(' ') | first | length
text | list | first
(text | upper)[0]
text | upper[0]
"""

TESTS = r"""
6 is divisibleby 3
7 is divisibleby(3)
6 is divisibleby 0
'a' is divisibleby 3
6.0 is divisibleby 3
1 is in [1]
1 is in([2])
'a' is in 'cat'
'a' is not in 'cat'
missing is in [1]
none is in none
none is sameas none
nothing is sameas none
yes is sameas true
1 is sameas true
'a' is sameas 'a'
no is not sameas false
missing is sameas none
1 is eq 1
1 is equalto 1.0
1 is ne 1
1 is lt 2
1 is lessthan 2
1 is le 1
1 is gt 2
1 is greaterthan 0
1 is ge 2
'a' is lt 1
1 is == 1
'a' is eq('a')
'upper' is filter
'nope' is filter
'string' is test
'nope' is test
('<' | escape) is escaped
('<' | escape) is string
tools is iterable
tools is none
documents is defined
tools is defined and tools is not none
tools is not none
tools is not defined
not tools is defined
tools is undefined
tools is mapping or tools is iterable
person.home.code is none
person.home.code is defined
person.nope is none
person.home is mapping
person.items is defined
messages[0].tool_calls is defined
messages[2].content is none
messages[2].content is string
messages[5].content is iterable and messages[5].content is not string
messages[5].content is sequence and messages[5].content is not mapping
text is iterable and text is not mapping
text is sequence
empty is none
empty is string
'' is lower
'1' is upper
'a1' is lower
'AB C' is upper
zero is false
zero is even
1 is true
1 is odd
-3 is odd
2.0 is even
true is integer
true is number
true is boolean
true is true
True is boolean
1 is boolean
1.0 is integer
1.0 is float
1 is float
big is integer
9223372036854775808 is integer
2 ** 70 is number
2 ** 70 is integer
(2 ** 70) is integer
1e400 is float
() is sequence
(1, 2) is iterable
(1, 2) is mapping
range(3) is sequence
range(3) is iterable
counts.items() is iterable
counts.items() is sequence
counts.keys() is mapping
(words | map('upper')) is iterable
(words | map('upper')) is sequence
(words | map('upper')) is string
range is callable
dict is callable
text.upper is callable
namespace(a=1) is iterable
namespace is callable
joiner() is callable
1 is nope
1 is not
1 is number is true
1 is number and 2 is number
1 + 1 is even
2 * 3 is odd
-1 is number
not 1 is number
1 is not number
'a' ~ 1 is number
text | length is number
text is string and text | length > 3
1 if 1 is number else 2
1 is number == true
1 is defined == 2 is defined
text is string | string
text is eq 'Hello, Wörld'
missing is defined or true
missing.x is undefined
absent is defined
"""

# Whole templates, one a line.
STATEMENTS = r"""
{{ text }} and {{ number }}
{{text}}{{number}}
{{{'a': 1}}}
{{ {'a': {'b': 1}}.a.b }}
{{ }}
{{
{% %}
{% if
{{ text }
{{ text %}
}} %} #}
{ { text } }
$x {$ %x% <%= x %>
# for x in y
## a
{% nope %}
{% endif %}
{% if true %}
{% set a = 1 %}{{ a }}
{% set a = 1, 2 %}{{ a }}
{% set a, b = 1, 2 %}{{ b ~ a }}
{% set (a, b) = [1, 2] %}{{ b ~ a }}
{% set a, b = [1] %}
{% set a = b = 1 %}
{% set a %}x{{ number }}{% endset %}{{ a }}
{% set a %}{% endset %}[{{ a }}]{{ a is string }}
{% set a %}<b>{% endset %}{{ a | escape }}
{% set a | upper %}x{{ number }}{% endset %}{{ a }}
{% set a | replace('x', 'y') | upper %}xz{% endset %}{{ a }}
{% set a | trim | length %}  x {% endset %}{{ a + 1 }}
{% set a = a | default('x') %}{{ a }}
{% set text = text | upper %}{{ text }}
{% set person.name = 1 %}
{% set person['name'] = 1 %}
{% set a = text if no %}{{ a is defined }}[{{ a }}]
{% set a = missing %}{{ a is defined }}
{% set range = 5 %}{{ range }}
{% set d = dict(counts, d=4) %}{{ d }}{{ counts | length }}
{% if yes %}a{% endif %}
{% if no %}a{% elif yes %}b{% else %}c{% endif %}
{% if no %}a{% elif no %}b{% elif missing %}c{% else %}d{% endif %}
{% if no %}a{% else if yes %}b{% endif %}
{% if %}a{% endif %}
{% if yes %}{% set a = 1 %}{% endif %}{{ a }}
{% if no %}{% set a = 1 %}{% endif %}{{ a is defined }}
{% if yes %}{% set text = 1 %}{% endif %}{{ text }}
{% if '' or [] or {} or 0 or 0.0 or none or missing %}a{% else %}b{% endif %}
{% if 'False' and [0] and {0: 0} and -1 %}a{% endif %}
{% if range(0) %}a{% else %}b{% endif %}
{% if namespace() %}a{% endif %}
{% if words | select('none') %}a{% endif %}
{% if words | select('none') | list %}a{% else %}b{% endif %}
{% if missing.x %}a{% endif %}
{% if not missing %}a{% endif %}
{% if yes -%} a {%- endif %}
{% for x in numbers %}{{ x }},{% endfor %}
{% for x in numbers %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}
{% for x in nobody %}{{ x }}{% else %}none{% endfor %}
{% for x in numbers if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }} {% endfor %}
{% for x in numbers if x > 9 %}{{ x }}{% else %}none{% endfor %}
{% for x in numbers if loop.first %}{{ x }}{% endfor %}
{% for m in messages if m.role == 'user' %}{{ loop.index0 }}{{ loop.last }} {% endfor %}
{% for x in numbers | sort %}{{ x }}{% endfor %}
{% for x in 'aé漢' %}{{ x }}.{% endfor %}
{% for k in person %}{{ k }} {% endfor %}
{% for k, v in counts.items() %}{{ k }}={{ v }} {% endfor %}
{% for k, v in counts | items %}{{ k }}={{ v }} {% endfor %}
{% for k, v in counts | dictsort %}{{ k }}={{ v }} {% endfor %}
{% for (k, v) in counts.items() %}{{ loop.index }}{{ k }}{% endfor %}
{% for k, v in counts %}{{ k }}{% endfor %}
{% for k, (a, b) in [(1, (2, 3))] %}{{ k + a + b }}{% endfor %}
{% for a, b in [[1, 2], [3, 4]] %}{{ a }}-{{ b }} {% endfor %}
{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}
{% for a, b in ['xy'] %}{{ b }}{{ a }}{% endfor %}
{% for role, group in messages | groupby('role') %}{{ role }}{{ group | length }} {% endfor %}
{% for x in missing %}a{% else %}b{% endfor %}
{% for x in nothing %}a{% endfor %}
{% for x in nothing or [] %}a{% else %}b{% endfor %}
{% for x in number %}a{% endfor %}
{% for x in numbers %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }} {% endfor %}
{% for x in numbers %}{{ loop.first }}{{ loop.last }} {% endfor %}
{% for x in numbers %}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }} {% endfor %}
{% for x in numbers %}[{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }}]{% endfor %}
{% for x in numbers %}{{ loop.previtem is defined }} {{ loop.nextitem is defined }} {% endfor %}
{% for m in messages %}{{ m.role if loop.nextitem and loop.nextitem.role == 'tool' }}{% endfor %}
{% for x in [1, 1, 2, 2, 1] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %}
{% for x in numbers %}{{ loop.changed(x > 1, 'a') }} {% endfor %}
{% for x in numbers %}{{ loop.cycle('a', 'b') }}{% endfor %}
{% for x in numbers %}{{ loop.cycle() }}{% endfor %}
{% for x in numbers %}{{ loop.nope is defined }}{% endfor %}
{% for x in numbers %}{{ loop }}{% endfor %}
{% for x in numbers %}{{ loop['index'] }}{% endfor %}
{% for x in words | map('upper') %}{{ x }}{{ loop.length }}{{ loop.last }} {% endfor %}
{% for x in words | select('lower') %}{{ loop.revindex }}{{ loop.nextitem }} {% endfor %}
{% for x in nested recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{{ loop.depth }} {% endif %}{% endfor %}
{% for x in [{'n': 1, 'c': [{'n': 2, 'c': []}]}] recursive %}{{ x.n }}{{ loop.depth0 }}{% if x.c %}[{{ loop(x.c) }}]{% endif %}{% endfor %}
{% for x in numbers %}{{ loop(x) }}{% endfor %}
{% for x in nested %}{% for y in x %}{{ loop.index }}{{ loop.depth }} {% endfor %}{% endfor %}
{% for x in nested %}{% set outer = loop %}{% for y in x %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
{% for x in nested %}{% for y in x %}{% endfor %}{{ loop.index }}{% endfor %}
{% for x in numbers %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}
{% for x in numbers %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in numbers %}{% break %}{% else %}none{% endfor %}
{% for x in numbers %}{% continue %}{% else %}none{% endfor %}
{% for x in nested %}{% for y in x %}{% break %}{% endfor %}{{ loop.index }}{% endfor %}
{% for x in numbers %}{% if loop.last %}{% break %}{% endif %}{{ loop.index }}{% endfor %}
{% break %}
{% if true %}{% break %}{% endif %}
{% for x in numbers %}{% set a = x %}{% endfor %}{{ a is defined }}
{% set a = 0 %}{% for x in numbers %}{% set a = a + x %}{{ a }} {% endfor %}{{ a }}
{% set a = 0 %}{% for x in numbers %}{% if x == 1 %}{% set a = 5 %}{% endif %}{{ a }}{% endfor %}{{ a }}
{% set ns = namespace(a=0) %}{% for x in numbers %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }}
{% set ns = namespace() %}{% set ns.a = [] %}{% for x in numbers %}{% set ns.a = ns.a + [x] %}{% endfor %}{{ ns.a }}
{% set ns = namespace() %}{{ ns.a is defined }}[{{ ns.a }}]
{% set ns = namespace(a=1) %}{% set ns.a %}b{{ ns.a }}{% endset %}{{ ns.a }}
{% set ns = namespace(a=1) %}{% set ns.b, ns.a = ns.a, 2 %}{{ ns.a }}{{ ns.b }}
{% set ns = namespace(a=1) %}{% set ns['a'] = 2 %}
{% set ns = namespace(a=1) %}{% set ns.__class__ = 2 %}
{% set ns = namespace(a=1) %}{% set other = ns %}{% set other.a = 2 %}{{ ns.a }}
{% set ns = namespace(a=1, items=2) %}{{ ns.items }}{{ ns['a'] }}
{% for x in numbers %}{% endfor %}{{ x is defined }}
{% set x = 9 %}{% for x in numbers %}{{ x }}{% endfor %}{{ x }}
{% for x in numbers %}{{ loop.index }}{% endfor %}{{ loop is defined }}
{% for text in words %}{{ text }}{% endfor %}{{ text }}
{% for loop in numbers %}{{ loop }}{% endfor %}
{% for x in numbers %}{% for x in words %}{{ x }}{% endfor %}{{ x }}{% endfor %}
{% for numbers in numbers %}{{ numbers }}{% endfor %}
{% for x.y in numbers %}{% endfor %}
{% for x in numbers %}
{% for x in numbers if x > 1 else [] %}{{ x }}{% endfor %}
{% with %}{% set a = 1 %}{{ a }}{% endwith %}{{ a is defined }}
{% with text = 1 %}{{ text }}{% endwith %}{{ text }}
{% with a = 1, b = a %}{{ b is defined }}{% endwith %}
{% with text = text | upper %}{{ text }}{% endwith %}
{% filter upper %}a{{ text }}{% endfilter %}
{% filter replace('a', 'b') | upper %}cat{% endfilter %}
{% filter indent(2, true) %}a{% endfilter %}
{% filter nope %}a{% endfilter %}
{% filter upper %}{% set a = 1 %}{% endfilter %}{{ a is defined }}
{% filter trim %}  a {% for x in numbers %} {{ x }} {% endfor %}  {% endfilter %}
{% macro m() %}a{% endmacro %}{{ m() }}{{ m() }}
{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(1, 2) }} {{ m(1) }} {{ m(b=2, a=1) }}
{% macro m(a, b='x') %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 2) }} {{ m(1, b=3) }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}
{% macro m(a=1, b) %}{{ a }}{{ b }}{% endmacro %}
{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}
{% macro m(a=missing) %}[{{ a }}]{% endmacro %}{{ m() }}
{% macro m(a=none) %}{{ a is none }}{% endmacro %}{{ m() }}{{ m(missing) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(c=2) }}
{% macro m(a) %}{{ a }}{{ varargs }}{% endmacro %}{{ m(1, 2, 3) }}{{ m(1) }}
{% macro m(a) %}{{ a }}{{ kwargs }}{% endmacro %}{{ m(1, c=2) }}{{ m(1) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'a': 2}) }}
{% macro m(a, b, c) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(*numbers) }}
{% macro m() %}<b>{% endmacro %}{{ m() | escape }}{{ m() is string }}
{% macro m() %}  a {% endmacro %}[{{ m() | trim }}]{{ m() | length }}
{% macro m() %}{{ text }}{% endmacro %}{{ m() }}
{% set a = 1 %}{% macro m() %}{{ a }}{% endmacro %}{% set a = 2 %}{{ m() }}
{% macro m() %}{{ a }}{% endmacro %}{% set a = 2 %}{{ m() }}
{% macro m() %}{% set a = 1 %}{% endmacro %}{{ m() }}{{ a is defined }}
{% macro m(text) %}{{ text }}{% endmacro %}{{ m(1) }}{{ text }}
{% for x in numbers %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}
{% macro m() %}{{ x }}{% endmacro %}{% for x in numbers %}{{ m() }}{% endfor %}
{% macro m() %}{{ loop is defined }}{% endmacro %}{% for x in numbers %}{{ m() }}{% endfor %}
{% set ns = namespace(n=0) %}{% macro m() %}{% set ns.n = ns.n + 1 %}{{ ns.n }}{% endmacro %}{{ m() }}{{ m() }}
{% macro m(ns) %}{% set ns.n = 5 %}{% endmacro %}{% set o = namespace() %}{{ m(o) }}{{ o.n }}
{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}
{% macro a() %}a{{ b() }}{% endmacro %}{% macro b() %}b{% endmacro %}{{ a() }}
{{ m() }}{% macro m() %}a{% endmacro %}
{% if yes %}{% macro m() %}a{% endmacro %}{% endif %}{{ m() }}
{% if no %}{% macro m() %}a{% endmacro %}{% endif %}{{ m is defined }}
{% macro m(a, b=1) %}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}
{% macro m() %}{% endmacro %}{{ m }}{{ m is callable }}{{ m is defined }}
{% macro m() %}{{ raise_exception('a') }}{% endmacro %}b
{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}a{{ text }}{% endcall %}
{% macro m() %}{{ caller(1) }}{{ caller(2) }}{% endmacro %}{% call(x) m() %}<{{ x }}>{% endcall %}
{% macro m() %}{{ caller(x=1) }}{% endmacro %}{% call(x, y=2) m() %}{{ x }}{{ y }}{% endcall %}
{% macro m(a) %}{{ a }}{{ caller() }}{% endmacro %}{% call m('z') %}a{% endcall %}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% macro m() %}a{% endmacro %}{% call m() %}b{% endcall %}
{% macro m(caller=none) %}{{ caller is none }}{% endmacro %}{{ m() }}
{% macro m(a, a) %}{% endmacro %}
{% macro m %}a{% endmacro %}
{% raw %}{{ text }}{% if %}{# a #}{% endraw %}
{% raw %}{% raw %}{% endraw %}
{%- raw -%} a {%- endraw -%} b
{% raw %}a
a{# b #}c
a {#- b -#} c
{# {{ text }} {% if %} #}a
{# {# a #} #}
{% generation %}a{{ text }}{% endgeneration %}
{% for m in messages %}{% generation %}{{ m.role }}{% endgeneration %}{% endfor %}
{% generation %}{% set a = 1 %}{% endgeneration %}{{ a is defined }}
{% set a = 1 %}{% generation %}{{ a }}{% set a = 2 %}{{ a }}{% endgeneration %}{{ a }}
{% set ns = namespace(a=1) %}{% generation %}{% set ns.a = 2 %}{% endgeneration %}{{ ns.a }}
{% for x in numbers %}{% generation %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endgeneration %}{% endfor %}
{% generation %}{% generation %}a{% endgeneration %}{% endgeneration %}
{% generation %}{% endgeneration %}
{% generation %}a
{% endgeneration %}
{% macro m() %}{% generation %}a{% endgeneration %}{% endmacro %}{{ m() | upper }}
{% set generation = 1 %}{{ generation }}
{% include 'a' %}
{% include 'a' ignore missing %}
{% import 'a' as a %}
{% extends 'a' %}
{% do numbers.append(1) %}
{% trans %}a{% endtrans %}
{% print(1) %}
{% block a %}x{{ text }}{% endblock %}
{% block a %}x{% endblock %}{{ self.a() }}
{% block a %}x{% endblock a %}{% block a %}y{% endblock %}
{% set a = 1 %}{% block b %}{{ a }}{% endblock %}
{% for x in numbers %}{% block b %}{{ x }}{% endblock %}{% endfor %}
{% for x in numbers %}{% block b scoped %}{{ x }}{% endblock %}{% endfor %}
{% autoescape true %}{{ html }}{{ html | safe }}{% endautoescape %}
{% autoescape false %}{{ html }}{% endautoescape %}
{% autoescape true %}{{ '<' ~ '>' }}{{ ['<'] | join('>') }}{% endautoescape %}
{% autoescape true %}{% set a %}<b>{% endset %}{{ a }}{% endautoescape %}
{% autoescape true %}{% macro m() %}<b>{% endmacro %}{{ m() }}{{ '<' | tojson }}{% endautoescape %}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}
{% set c = cycler(*numbers) %}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}
{% set j = joiner() %}{% for x in numbers %}{{ j() }}{{ x }}{% endfor %}
{% set j = joiner('; ') %}{% for x in numbers %}{{ j() }}{{ x }}{% endfor %}
{% set j = joiner(sep='/') %}{{ j() }}{{ j() }}
{% set g = words | map('upper') %}{{ g | list }}{{ g | list }}
{% set f = text.upper %}{{ f() }}
{% set f = person.get %}{{ f('name') }}
{% set a = numbers %}{% set b = a | sort %}{{ a }}{{ b }}
{% if no %}{{ raise_exception('c') }}{% endif %}a
{% if no %}{{ text | nope }}{% endif %}a
{{ (text | nope) if no else 'a' }}
{% if no %}{{ 1 is nope }}{% endif %}a
{% if no %}{{ missing.x }}{{ 1 / 0 }}{% endif %}a
{{ missing.x if missing is defined else 'a' }}
{{ missing is defined and missing.x }}
"""

# Whole templates in which the ends of lines matter.
WHITESPACE = [
    "",
    "\n",
    "\n\n",
    " ",
    "a\n",
    "a\n\n",
    "a\n\n\n",
    "a \n ",
    "\na",
    "{{ text }}\n",
    "{{ text }}\n\n",
    "{{ text }}\nb",
    "{{ text }}  \n  b",
    "  {{ text }}  ",
    "{{ 'a\n' }}\n",
    "{{ 'a' }}{{ '\\n' }}\n",
    "{% if yes %}\na\n{% endif %}\nb\n",
    "{% if yes %}\na\n{% endif %}\n\n",
    "{% if yes %}\n\na{% endif %}",
    "{% if yes %} \na{% endif %}",
    "{% if yes %}  a{% endif %}  ",
    "  {% if yes %}\n    a\n  {% endif %}\nb",
    "\t{% if yes %}\n\ta\n\t{% endif %}\nb",
    " \t {% if yes %}a{% endif %}",
    "x  {% if yes %}a{% endif %}",
    "x\n  {% if yes %}a{% endif %}",
    "x\n\n  {% if yes %}\n\n  a{% endif %}",
    "{{ text }}  {% if yes %}a{% endif %}",
    "{% if yes %}  {% if yes %}a{% endif %}  {% endif %}",
    "{% if yes %}\n  {% if yes %}\n  a\n  {% endif %}\n{% endif %}\n",
    "{% if yes %}  {{ text }}{% endif %}",
    "a  {%- if yes %}  b  {%- endif %}  c",
    "a  {% if yes -%}  b  {% endif -%}  c",
    "a \n\t {%- if yes -%} \n\t b \n\t {%- endif -%} \n\t c",
    "a\n{{- 'b' -}}\nc",
    "a\n {{- 'b' }}\nc",
    "a\n{{ 'b' -}}\n c",
    "a {{-'b'-}} c",
    "a {{- -1 -}} c",
    "a {{ - 1 -}} c",
    "{{ 1 --}}",
    "  {%+ if yes %}a{% endif %}",
    "\n  {%+ if yes %}\na\n  {%+ endif %}\nb",
    "{% if yes +%}\na{% endif +%}\nb",
    "  {%+ if yes +%}\n  a\n  {%+ endif +%}\n",
    "{%+ if yes -%}\n a\n{%- endif +%}\n b",
    "{%-+ if yes %}a{% endif %}",
    "a {{+ 1 }} b",
    "a {{ 1 +}} b",
    "a\n{# b #}\nc",
    "a\n  {# b #}\nc",
    "a  {# b #}  \nc",
    "a\n  {#- b -#}\n  c",
    "a\n  {#+ b +#}\n  c",
    "{#\n b\n#}\nc",
    "{# a #}\n{# b #}\n",
    "  {# a #}{% if yes %}b{% endif %}",
    "{% raw %}\na\n{% endraw %}\nb",
    "  {% raw %}  {{ a }}\n  {% endraw %}\nb",
    "{%- raw %} a {% endraw -%}\n b",
    "{% raw -%}\n  a\n  {%- endraw %}",
    "{% set a = 1 %}\n{% set b = 2 %}\n{{ a + b }}\n",
    "  {% set a = 1 %}  \n{{ a }}",
    "{% set a %}\nx\n{% endset %}\n[{{ a }}]",
    "{%- set a -%}\nx\n{%- endset -%}\n[{{ a }}]",
    "{% for x in numbers %}\n{{ x }}\n{% endfor %}\n",
    "{% for x in numbers %}\n  {{ x }}\n{% endfor %}\nb",
    "{% for x in numbers -%}\n  {{ x }}\n{%- endfor %}\nb",
    "{%- for x in numbers %}\n  {{- x }}\n{%- endfor %}\n",
    "{%- for x in numbers %}\n  {{ x -}}\n  ,\n{% endfor %}",
    "{% for x in nobody %}\na\n{% else %}\nb\n{% endfor %}\nc",
    "{% macro m(x) %}\n  {{ x }}\n{% endmacro %}\n[{{ m(1) }}]\n",
    "{%- macro m(x) -%}\n  {{ x }}\n{%- endmacro -%}\n[{{ m(1) }}]\n",
    "{% filter upper %}\na\n{% endfilter %}\nb",
    "  {% generation %}\n  a\n  {% endgeneration %}\nb",
    "{%- generation %}\na{%- endgeneration %}\nb",
    "a\n  {%- generation -%}\n b \n{%- endgeneration -%}\n c",
    "{% call(x) m() %}\n{% endcall %}",
    "{% macro m() %}\n{{ caller() }}\n{% endmacro %}\n{% call m() %}\n a\n{% endcall %}\nb",
    "{% with a = 1 %}\n {{ a }}\n{% endwith %}\n",
    "{%if yes%}a{%endif%}",
    "{%-if yes-%}a{%-endif-%}",
    "{%\n  if yes\n%}\na{% endif %}",
    "{{\n  text\n}}\n",
    "{{ person\n  .name }}",
    "{{ [1,\n 2] }}",
    "{{ 'a\nb' }}",
    "{{ 'a\n  b' | length }}",
    "{{ 'a\\\nb' }}",
    "{{ '\ta' }}",
    "a\r\nb",
    "a\rb",
    "a\r\n",
    "a\r",
    "a\n\r",
    "a\r\n\r\n",
    "\r\na",
    "{% if yes %}\r\na\r\n{% endif %}\r\nb",
    "{% if yes %}\ra\r{% endif %}\rb",
    "x\r\n  {% if yes %}a{% endif %}",
    "x\r\n  {%- if yes -%}\r\n  a{% endif %}",
    "{{ 'a\r\nb' }}",
    "{{ 'a\rb' | length }}",
    "{{ 'a\\r\\nb' | length }}",
    "{# a #}\r\nb",
    "{% raw %}a\r\nb{% endraw %}",
    "{{ text }}\r\nb",
    "a\x0bb\x0cc\u2028d\x85e",
    "a\u2028",
    "a\x0c",
    "\xa0{% if yes %}a{% endif %}",
    "\u3000{% if yes %}a{% endif %}",
    "a\xa0\u3000{%- if yes -%}\x1c\x85b{% endif %}",
    "a\u200b {%- if yes %}b{% endif %}",
    "a\x0b{{- 'b' -}}\x0cc",
    "{{\xa0text\xa0}}",
    "é漢😀{{ foreign }}é",
    "{{ é }}",
    "{% set é = 1 %}{{ é }}",
    "{{ 'é' }}{{ \"漢\" }}",
    "\ufeffa",
    "a\x00b",
]

# What the templates of real models do: Llama, Qwen, Nemotron, Command R, Mistral, Gemma, DeepSeek, Phi, GLM, MiMo, gpt-oss.
IDIOMS = [
    "{{- bos_token }}\n{%- if custom_tools is defined %}\n    {%- set tools = custom_tools %}\n{%- endif %}\n{%- if not tools is defined %}\n    {%- set tools = none %}\n{%- endif %}\n{{ tools is none }}",
    "{%- if messages[0]['role'] == 'system' %}\n    {%- set system_message = messages[0]['content']|trim %}\n    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set system_message = '' %}\n{%- endif %}\n{{- system_message + '|' + messages[0]['role'] }}",
    "{%- for t in functions %}\n    {{- t | tojson(indent=4) }}\n    {{- '\\n\\n' }}\n{%- endfor %}",
    "{%- for message in messages %}{%- if not (message.role == 'tool' or 'tool_calls' in message) %}{{- message['role'] }} {% endif %}{%- endfor %}",
    "{%- for message in messages if message.tool_calls %}{%- if not message.tool_calls|length == 1 %}{{- raise_exception('one call!') }}{%- endif %}{%- set call = message.tool_calls[0].function %}{{- '{\"name\": \"' + call.name + '\", \"parameters\": ' }}{{- call.arguments | tojson }}{{- '}' }}{%- endfor %}",
    "{%- for name, value in messages[2].tool_calls[0].function.arguments | items %}{{- name + '=\"' ~ value ~ '\"' }}{%- if not loop.last %}{{- ', ' }}{%- endif %}{%- endfor %}",
    "{%- set ns = namespace(multi=true, last=messages|length - 1) %}\n{%- for message in messages[::-1] %}\n    {%- set index = (messages|length - 1) - loop.index0 %}\n    {%- if ns.multi and message.role == 'user' and message.content is string and not(message.content.startswith('<r>') and message.content.endswith('</r>')) %}\n        {%- set ns.multi = false %}\n        {%- set ns.last = index %}\n    {%- endif %}\n{%- endfor %}\n{{ ns.last }}",
    "{%- set content = messages[4].content %}{%- if '</think>' in content %}{%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}{%- set content = content.split('</think>')[-1].lstrip('\\n') %}{%- endif %}{{- thought ~ '|' ~ content }}",
    "{%- set content = messages[4]['content'] %}{%- if '<think>' in content and '</think>' in content %}{%- set content = (content.split('<think>')|first) + (content.split('</think>')|last) %}{%- endif %}{{ content|trim }}",
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- else %}{{- '<think>\\n' }}{%- endif %}",
    "{{- '<think>' if enable_thinking | default(true) else '' }}",
    "{%- if add_generation_prompt and not (thinking is defined and thinking) %}{{ '<|Assistant|></think>' }}{%- endif %}",
    "{%- for message in messages %}{%- if (message.role == 'user') or (message.role == 'system' and not loop.first) %}{{- loop.index0 }}{%- elif message.role == 'tool' %}{%- if loop.first or (messages[loop.index0 - 1].role != 'tool') %}{{- '<|user|>' }}{%- endif %}{%- if loop.last or (messages[loop.index0 + 1].role != 'tool') %}{{- '<|end|>' }}{%- endif %}{%- endif %}{%- endfor %}",
    "{%- macro render_extra_keys(json_dict, handled_keys) -%}\n    {%- if json_dict is mapping %}\n        {%- for json_key in json_dict if json_key not in handled_keys %}\n            {%- if json_dict[json_key] is mapping or (json_dict[json_key] is sequence and json_dict[json_key] is not string) %}\n                {{- '\\n<' ~ json_key ~ '>' ~ (json_dict[json_key] | tojson | safe) ~ '</' ~ json_key ~ '>' }}\n            {%- else %}\n                {{-'\\n<' ~ json_key ~ '>' ~ (json_dict[json_key] | string) ~ '</' ~ json_key ~ '>' }}\n            {%- endif %}\n        {%- endfor %}\n    {%- endif %}\n{% endmacro %}\n{{- render_extra_keys(functions[0].function, ['name']) }}",
    "{%- for tool in functions %}\n    {%- if tool.function is defined %}\n        {%- set tool = tool.function %}\n    {%- endif %}\n    {{- '\\n<name>' ~ tool.name ~ '</name>' }}\n    {%- if tool.description is defined %}\n        {{- '\\n<description>' ~ (tool.description | trim) ~ '</description>' }}\n    {%- endif %}\n    {%- for name, fields in tool.parameters.properties|items %}\n        {{- '\\n<type>' ~ (fields.type | string) ~ '</type>' }}\n    {%- endfor %}\n{%- endfor %}",
    "{%- for args_name, args_value in messages[2].tool_calls[0].function.arguments.items() %}{%- set args_value = args_value if args_value is string else args_value | tojson %}{{- '<parameter=' ~ args_name ~ '>\\n' ~ args_value ~ '\\n</parameter>\\n' }}{%- endfor %}",
    "{{- person.home | tojson | safe if person.home is mapping or (person.home is sequence and person.home is not string) else person.home | string }}",
    "{%- set user_messages = messages | selectattr('role', 'equalto', 'user') | list %}{%- for message in messages %}{%- if tools is not none and (message == user_messages[-1]) %}a{%- elif message == user_messages[-1] %}b{%- endif %}{%- endfor %}",
    "{%- set ns = namespace(index=0) %}{%- for message in messages[1:] %}{%- if message.role == 'user' or (message.role == 'assistant' and message.tool_calls is undefined) %}{%- if (message['role'] == 'user') != (ns.index % 2 == 0) %}{{- raise_exception('Roles must alternate') }}{%- endif %}{%- set ns.index = ns.index + 1 %}{%- endif %}{%- endfor %}{{ ns.index }}",
    "{%- for message in messages %}{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{%- endif %}{%- endfor %}",
    "{%- if messages[2].tool_calls is defined and messages[2].tool_calls is not none and messages[2].tool_calls|length > 0 %}{%- for tool_call in messages[2].tool_calls %}{%- set out = tool_call.function|tojson %}{{- out[:-1] }}{%- if not tool_call.id is defined or tool_call.id|length != 9 %}{{- '!' }}{%- endif %}{{- ', \"id\": \"' + tool_call.id + '\"}' }}{%- endfor %}{%- endif %}",
    "{{- '[AVAILABLE_TOOLS][' }}{%- for tool in functions %}{%- set tool = tool.function %}{{- '{\"type\": \"function\", \"function\": {' }}{%- for key, val in tool.items() if key != 'return' %}{%- if val is string %}{{- '\"' + key + '\": \"' + val + '\"' }}{%- else %}{{- '\"' + key + '\": ' + val|tojson }}{%- endif %}{%- if not loop.last %}{{- ', ' }}{%- endif %}{%- endfor %}{{- '}}' }}{%- endfor %}{{- ']' }}",
    "{%- if messages[5]['content'] is string -%}a{%- elif messages[5]['content'] is iterable -%}{%- for item in messages[5]['content'] -%}{%- if item['type'] == 'image' -%}{{ '<image>' }}{%- elif item['type'] == 'text' -%}{{ item['text'] | trim }}{%- endif -%}{%- endfor -%}{%- else -%}{{ raise_exception('Invalid content type') }}{%- endif -%}",
    "{%- if (message['role'] == 'assistant') -%}{%- set role = \"model\" -%}{%- else -%}{%- set role = message['role'] -%}{%- endif -%}{{ role }}",
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + (message['content'] or '') + '<|im_end|>' + '\n'}}{% if loop.index0 == 1 %}{% break %}{% endif %}{% endfor %}",
    "{%- macro visible_text(content) -%}\n    {%- if content is string -%}\n        {{- content }}\n    {%- elif content is iterable and content is not mapping -%}\n        {%- for item in content -%}\n            {%- if item is mapping and item.type == 'text' -%}\n                {{- item.text }}\n            {%- elif item is string -%}\n                {{- item }}\n            {%- endif -%}\n        {%- endfor -%}\n    {%- elif content is none -%}\n        {{- '' }}\n    {%- else -%}\n        {{- content }}\n    {%- endif -%}\n{%- endmacro -%}\n{%- for m in messages %}\n[{{ visible_text(m.content) }}]\n{%- endfor %}",
    "{{ '/nothink' if (enable_thinking is defined and not enable_thinking and not messages[1].content.endswith('/nothink')) else '' }}[gMASK]<sop>",
    "{% for tc in messages[2].tool_calls %}{%- if tc.function %}{%- set tc = tc.function %}{%- endif %}{{ '\\n<tool_call>' + tc.name }}\n{% set _args = tc.arguments %}{% for k, v in _args.items() %}<arg_key>{{ k }}</arg_key>\n<arg_value>{{ v | tojson(ensure_ascii=False) if v is not string else v }}</arg_value>\n{% endfor %}</tool_call>{% endfor %}",
    "{%- macro render_typescript_type(param_spec, required_params, is_nullable=false) -%}\n    {%- if param_spec.type is defined and param_spec.type is iterable and param_spec.type is not string and param_spec.type is not mapping and param_spec.type[0] is defined -%}\n        {{- param_spec.type | join(' | ') }}\n    {%- elif param_spec.enum -%}\n        {{- '\"' + param_spec.enum|join('\" | \"') + '\"' -}}\n    {%- else -%}\n        {{- param_spec.type }}\n        {%- if param_spec.nullable %}\n            {{- ' | null' -}}\n        {%- endif -%}\n    {%- endif -%}\n{%- endmacro -%}\n{%- for n, p in functions[0].function.parameters.properties.items() %}\n{{ n }}{{ '?' if n not in (functions[0].function.parameters.required or []) }}: {{ render_typescript_type(p, []) }}\n{%- endfor %}",
    "{%- set effort = reasoning_effort | default('medium') %}{{- 'Reasoning: ' + effort + '\\n\\n# Valid channels: analysis, final.' }}",
    "{%- set last_tool_call = namespace(name=none) %}{%- for message in messages -%}{%- if message.role == 'assistant' and message.tool_calls %}{%- set last_tool_call.name = message.tool_calls[0].function.name %}{%- elif message.role == 'tool' -%}{%- if last_tool_call.name is none %}{{- raise_exception('No call before the tool!') }}{%- endif %}{{- '<|start|>functions.' + last_tool_call.name }}{%- endif -%}{%- endfor -%}",
    "{%- if not loop is defined and messages[-1].role == 'user' %}{{ messages[-1].content | map(attribute='type') | join('+') }}{% endif %}",
    "{%- macro document_turn(documents) -%}\n{# the documents #}\n<|START_ACTION|>[{% for d in documents %}\n    {{ {'id': loop.index0, 'data': d} | tojson }}{% if not loop.last %},{% endif %}\n{% endfor %}\n]{%- endmacro %}\n{{ document_turn([{'title': 'a'}, {'title': 'b'}]) }}",
    "{%- if documents %}{{ documents | length }}{%- elif not documents %}none{%- endif %}",
    "{{- '\\n- `' + functions[0].function.name + '`: ' + functions[0].function.description.split('\\n') | first }}",
    "{%- for tool in messages[2]['tool_calls'] %}{{- '<|tool▁call▁begin|>' + tool['type'] + '<|tool▁sep|>' + tool['function']['name'] + '\\n' + '```json' + '\\n' + (tool['function']['arguments'] | tojson) + '\\n' + '```' + '<|tool▁call▁end|>'}}{%- endfor %}",
    "{%- set arguments = messages[2].tool_calls[0].function.arguments %}{{ arguments if arguments is string else arguments|tojson }}{{ 'a' + arguments }}",
    "{%- if messages[0].role == 'system' and messages[0].content is not none and messages[0].content | trim | length > 0 %}{{- '<|system|>' ~ messages[0].content | trim }}{%- endif %}",
    "{%- set loop_messages = messages if messages[0].role != 'system' else messages[1:] %}{%- for message in loop_messages %}{%- set is_last = loop.index == loop_messages | length %}{{- is_last ~ ' ' }}{%- endfor %}",
    "{%- set content %}{% for part in messages[5].content if part.type == 'text' %}{{ part.text }}{% endfor %}{% endset %}{{ content ~ '|' ~ content | length }}",
    "{%- set content = (messages[1].content ~ '').strip() %}{%- if content.startswith('What') %}{{ content[4:].lstrip() }}{%- endif %}",
    "{%- if messages | selectattr('role', 'in', ['tool']) | list | length > 0 %}has tools{%- endif %}{%- if (messages | last).role == 'user' %}, user last{%- endif %}",
    "{%- set date = '2024-07-26' %}{%- set y, m, d = date.split('-') %}{{ d ~ '.' ~ m | int ~ '.' ~ y }}",
    "{{ bos_token + (eos_token if not add_generation_prompt else '') + ('x' if add_generation_prompt is defined and add_generation_prompt) }}",
    "{{ pad_token }}{{ bos_token + pad_token }}",
    "{{ messages[2].content + 'x' }}",
    "{{ messages[2].content | trim }}{{ messages[2]['content'] | length if messages[2]['content'] else 0 }}",
]


def environment():
    return chat_template_utils._compile_jinja_template("").environment


def rows(text):
    return [row for row in text.split("\n") if row]


def case(template):
    try:
        compiled = chat_template_utils._compile_jinja_template(template)
        result = dict(text=compiled.render(**copy.deepcopy(VALUES)))
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".split("\n")[0]
        result = dict(error=reason[:36])
    return dict(template=template, **result)


def joined(expressions, count):
    """Templates of `count` expressions each; one that raises is alone, as the others would not be seen."""
    alone, together = [], []
    for expression in expressions:
        output = f"{{{{ {expression} }}}}"
        (alone if "error" in case(output) else together).append(output)
    return ["|".join(together[at : at + count]) for at in range(0, len(together), count)] + alone


def templates():
    every = []
    for text in [LITERALS, PRINTED, OPERATORS, FUNCTIONS, *METHODS.values(), FILTERS, REFUSED]:
        every += joined(rows(text), 2)
    for text in [COMPARISONS, ACCESS, TESTS]:
        every += joined(rows(text), 4)
    for name in sorted(environment().tests):
        if name not in TESTS_WITH_ARGUMENTS:
            every += joined([f"{kind} is {name}" for kind in KINDS], len(KINDS))
    for use in SWEPT:
        every += joined([f"{kind} | {use}" for kind in KINDS[:6]], 6)
    every += rows(STATEMENTS) + WHITESPACE + IDIOMS
    return list(dict.fromkeys(every))


def check(templates):
    """Fails if a name has no template; whatever the environment has more in another version is then seen."""
    env, everything = environment(), "\n".join(templates)
    needed = []
    for name in env.filters:
        needed.append((f"filter {name}", rf"\| *{name}\b|'{name}'", everything))
    for name in env.tests:
        needed.append((f"test {name}", rf"is (not )?{re.escape(name)}(?!\w)|'{re.escape(name)}'", everything))
    for name in env.globals:
        needed.append((f"global {name}", rf"\b{name}\(", everything))
    for kind in [str, list, tuple, dict, int, float]:
        for name in dir(kind):
            if not name.startswith("_"):
                needed.append((f"{kind.__name__}.{name}", rf"\.{name}\b", METHODS[kind.__name__]))
    for what, kind in dict(loop=jinja2.runtime.LoopContext, c=jinja2.utils.Cycler, range=range).items():
        for name in dir(kind):
            if not name.startswith("_"):
                needed.append((f"{what}.{name}", rf"\b{what}(\([^)]*\))?\.{name}\b", everything))
    for name, pattern, text in needed:
        found = bool(re.search(pattern, text))
        assert found != (name in EXCLUDED), f"{name}: {'excluded' if found else 'no template'}"
    assert set(EXCLUDED) <= {name for name, _, _ in needed}


def is_fixed(case):
    """False if the outcome names a place in memory, which is another each time."""
    return " at 0x" not in case.get("text", "") + case.get("error", "")


def main():
    every = templates()
    check(every)
    cases = [case(template) for template in every]
    moving = [case["template"] for case in cases if not is_fixed(case)]
    assert not moving, moving
    dump = lambda value: json.dumps(value, ensure_ascii=False)
    print("{")
    print(f' "jinja2": {dump(jinja2.__version__)},')
    values = ",\n".join(f"  {dump(name)}: {dump(value)}" for name, value in VALUES.items())
    print(f' "values": {{\n{values}\n }},')
    lines = ",\n".join(f"  {dump(case)}" for case in cases)
    print(f' "cases": [\n{lines}\n ]\n}}')
    errors = sum("error" in case for case in cases)
    print(f"{len(cases)} cases, {errors} of them errors", file=sys.stderr)


main()
