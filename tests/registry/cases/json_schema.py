"""Pairs of JSON Schemas, and whether each takes everything that the other takes, by the rules of Confluent's registry.

B: the second reads what follows the first (BACKWARD). F: the first reads what follows the second (FORWARD).
"""

from typing import Final

S, N, W, A = '{"type":"string"}', '{"type":"number"}', '{"type":"integer"}', '{"type":"boolean"}'


def s(keywords: str) -> str:
    return f'{{"type":"string",{keywords}}}'


def n(keywords: str) -> str:
    return f'{{"type":"number",{keywords}}}'


def obj(properties: str, more: str = "") -> str:
    return f'{{"type":"object","properties":{{{properties}}}{"," + more if more else ""}}}'


def closed(properties: str, more: str = "") -> str:
    return obj(properties, '"additionalProperties":false' + ("," + more if more else ""))


def partly(properties: str, others: str) -> str:
    return obj(properties, f'"additionalProperties":{others}')


def arr(keywords: str) -> str:
    return f'{{"type":"array",{keywords}}}'


def modern(schema: str) -> str:
    return schema.replace("{", '{"$schema":"https://json-schema.org/draft/2020-12/schema",', 1)


def of(criterion: str, *parts: str) -> str:
    return f'{{"{criterion}":[{",".join(parts)}]}}'


_LIST = '{"type":"object","properties":{"value":%s,"next":{"$ref":"#"}}}'
_DEFINED = '{"type":"object","properties":{"a":{"$ref":"#/definitions/x"}},"definitions":{"x":%s}}'

CASES: Final[list[tuple[str, str, str]]] = [
    # Types.
    ("{}", "{}", "BF"),
    ("true", "{}", "BF"),
    ("false", "true", "B"),
    (S, "{}", "B"),
    (S, "true", "B"),
    ("false", S, "B"),
    (S, S, "BF"),
    (S, N, ""),
    (S, A, ""),
    (W, N, "B"),
    (W, W, "BF"),
    (N, A, ""),
    ('{"type":"null"}', S, ""),
    ('{"type":"null"}', '{"type":"null"}', "BF"),
    (S, '{"type":["string","null"]}', "B"),
    ('{"type":["string","null"]}', '{"type":["null","string"]}', "BF"),
    ('{"type":["string","null"]}', '{"type":["string","number"]}', ""),
    ('{"type":["string","null"]}', '{"type":["string","number","null"]}', "B"),
    ('{"type":["string"]}', S, "BF"),
    (S, '{"type":"string","title":"t","description":"d","default":"x"}', "BF"),
    (S, '{"$id":"http://x/y","type":"string"}', "BF"),
    ('{"type":"object"}', '{"type":"array"}', ""),
    # Strings.
    (s('"maxLength":5'), s('"maxLength":9'), "B"),
    (s('"maxLength":5'), S, "B"),
    (s('"minLength":5'), s('"minLength":3'), "B"),
    (s('"minLength":5'), S, "B"),
    (s('"pattern":"a"'), S, "B"),
    (s('"pattern":"a"'), s('"pattern":"b"'), ""),
    (s('"pattern":"a"'), s('"pattern":"a"'), "BF"),
    (s('"format":"date"'), S, "BF"),
    (s('"minLength":1,"maxLength":5'), s('"minLength":0,"maxLength":9'), "B"),
    (s('"minLength":1,"maxLength":5'), s('"minLength":0,"maxLength":3'), ""),
    # Numbers.
    (n('"maximum":5'), n('"maximum":9'), "B"),
    (n('"maximum":5'), N, "B"),
    (n('"minimum":5'), n('"minimum":3'), "B"),
    (n('"minimum":5'), N, "B"),
    (n('"minimum":5'), n('"minimum":5.0'), "BF"),
    (n('"exclusiveMaximum":5'), n('"exclusiveMaximum":9'), "B"),
    (n('"exclusiveMaximum":5'), N, "B"),
    (n('"exclusiveMinimum":5'), n('"exclusiveMinimum":3'), "B"),
    (n('"exclusiveMinimum":5'), N, "B"),
    (n('"multipleOf":10'), n('"multipleOf":5'), "B"),
    (n('"multipleOf":10'), n('"multipleOf":7'), ""),
    (n('"multipleOf":10'), N, "B"),
    (n('"multipleOf":0.5'), n('"multipleOf":0.50'), "BF"),
    (n('"multipleOf":0.3'), n('"multipleOf":0.1'), "B"),
    ('{"type":"integer","maximum":5}', n('"maximum":9'), "B"),
    # Enumerations.
    ('{"enum":["a","b"]}', '{"enum":["b","a"]}', "BF"),
    ('{"enum":["a"]}', '{"enum":["a","b"]}', "B"),
    ('{"enum":["a"]}', '{"enum":["b"]}', ""),
    ('{"enum":[1]}', '{"enum":[true]}', ""),
    ('{"enum":[{"a":1}]}', '{"enum":[{"a":1},null]}', "B"),
    ('{"const":"a"}', '{"const":"a"}', "BF"),
    ('{"const":"a"}', '{"const":"b"}', ""),
    ('{"const":"a"}', '{"enum":["a"]}', ""),
    ('{"type":"string","enum":["a"]}', '{"type":"string","enum":["a","b"]}', "B"),
    ('{"type":"string","enum":["a"]}', S, "B"),
    # Properties of an open object.
    (obj(f'"a":{S}'), obj(f'"a":{S}'), "BF"),
    (obj(f'"a":{S}'), obj(""), "B"),
    (obj(""), obj('"a":{}'), "BF"),
    (obj(""), obj('"a":true'), "BF"),
    (obj(""), obj(f'"a":{S}', '"required":["a"]'), "F"),
    (obj(""), obj('"a":{"type":"string","default":"x"}', '"required":["a"]'), "F"),
    (obj(f'"a":{W}'), obj(f'"a":{N}'), "B"),
    (obj(f'"a":{S}'), obj(f'"a":{N}'), ""),
    (obj(f'"a":{S}', '"required":["a"]'), obj(f'"a":{S}'), "B"),
    (obj('"a":{"type":"string","default":"x"}'), obj('"a":{"type":"string","default":"x"}', '"required":["a"]'), "BF"),
    (obj('"a":{"type":"object","properties":{"b":{"type":"string"}}}'), obj('"a":{"type":"object"}'), "B"),
    ("{}", obj(f'"a":{S}'), "F"),
    # Properties of a closed one.
    (closed(f'"a":{S}'), closed(f'"a":{S}'), "BF"),
    (closed(""), closed(f'"a":{S}'), "B"),
    (closed(""), closed(f'"a":{S}', '"required":["a"]'), ""),
    (closed(""), closed('"a":{"type":"string","default":"x"}', '"required":["a"]'), "B"),
    (closed('"a":false'), closed(""), "BF"),
    (closed(""), obj(""), "B"),
    (closed(f'"a":{S}'), obj(f'"a":{S}'), "B"),
    (closed(f'"a":{S}'), obj(""), "B"),
    (closed(f'"a":{S}'), obj(f'"a":{S},"b":{S}'), "B"),
    # Properties of one that allows some.
    (partly("", S), partly("", S), "BF"),
    (partly("", S), obj(""), "B"),
    (partly("", S), closed(""), "F"),
    (partly("", W), partly("", N), "B"),
    (partly("", S), partly(f'"a":{S}', S), "BF"),
    (partly("", S), partly(f'"a":{N}', S), ""),
    (partly("", N), partly(f'"a":{W}', N), "F"),
    (partly(f'"a":{W}', N), partly("", N), "B"),
    (obj("", f'"patternProperties":{{"^a":{S}}}'), obj(f'"ab":{S}', f'"patternProperties":{{"^a":{S}}}'), "BF"),
    (obj("", f'"patternProperties":{{"^a":{S}}}'), obj(f'"ab":{N}', f'"patternProperties":{{"^a":{S}}}'), ""),
    # Other keywords of objects.
    ('{"type":"object","maxProperties":5}', '{"type":"object","maxProperties":9}', "B"),
    ('{"type":"object","maxProperties":5}', '{"type":"object"}', "B"),
    ('{"type":"object","minProperties":5}', '{"type":"object","minProperties":3}', "B"),
    ('{"type":"object","minProperties":5}', '{"type":"object"}', "B"),
    ('{"type":"object","dependencies":{"a":["b"]}}', '{"type":"object"}', "B"),
    ('{"type":"object","dependencies":{"a":["b","c"]}}', '{"type":"object","dependencies":{"a":["b"]}}', "B"),
    ('{"type":"object","dependencies":{"a":["b"]}}', '{"type":"object","dependencies":{"a":["c"]}}', ""),
    (f'{{"type":"object","dependencies":{{"a":{obj("")}}}}}', '{"type":"object"}', "B"),
    (
        '{"type":"object","dependencies":{"a":{"properties":{"b":{"type":"integer"}}}}}',
        '{"type":"object","dependencies":{"a":{"properties":{"b":{"type":"number"}}}}}',
        "B",
    ),
    ('{"properties":{"a":{"type":"string"}}}', obj(f'"a":{S}'), "BF"),
    # Arrays.
    (arr(f'"items":{W}'), arr(f'"items":{N}'), "B"),
    (arr(f'"items":{S}'), arr(f'"items":{N}'), ""),
    (arr(f'"items":{S}'), '{"type":"array"}', "B"),
    (arr(f'"items":[{S}]'), arr(f'"items":[{S}]'), "BF"),
    (arr(f'"items":[{S}]'), arr(f'"items":[{S},{S}]'), "F"),
    (arr(f'"items":[{S}]'), arr(f'"items":[{S},true]'), "BF"),
    (arr(f'"items":[{S}],"additionalItems":false'), arr(f'"items":[{S},{S}],"additionalItems":false'), "B"),
    (arr(f'"items":[{S}],"additionalItems":false'), arr(f'"items":[{S}]'), "B"),
    (arr(f'"items":[{S}],"additionalItems":{S}'), arr(f'"items":[{S},{S}],"additionalItems":{S}'), "BF"),
    (arr(f'"items":[{S}],"additionalItems":{S}'), arr(f'"items":[{S},{N}],"additionalItems":{S}'), ""),
    (arr(f'"items":[{S}],"additionalItems":{W}'), arr(f'"items":[{S}],"additionalItems":{N}'), "B"),
    (arr('"maxItems":5'), arr('"maxItems":9'), "B"),
    (arr('"maxItems":5'), '{"type":"array"}', "B"),
    (arr('"minItems":5'), arr('"minItems":3'), "B"),
    (arr('"minItems":5'), '{"type":"array"}', "B"),
    (arr('"uniqueItems":true'), '{"type":"array"}', "B"),
    (arr('"uniqueItems":true'), arr('"uniqueItems":false'), "B"),
    (arr('"contains":{"type":"string"}'), '{"type":"array"}', "BF"),
    # Combinations.
    (S, of("oneOf", S, N), "B"),
    (S, of("anyOf", S, N), "B"),
    (S, of("oneOf", N, A), ""),
    (of("oneOf", S), S, "BF"),
    (of("oneOf", S, N), of("oneOf", N, S), "BF"),
    (of("oneOf", S, N), of("oneOf", S, N, A), "B"),
    (of("oneOf", S, N), of("oneOf", S, A), ""),
    (of("oneOf", W, S), of("oneOf", N, S), "B"),
    (of("oneOf", S, N), of("anyOf", S, N), "B"),
    (of("anyOf", S, N), of("anyOf", S, N, A), "B"),
    (of("anyOf", S, N), of("oneOf", S, N), "F"),
    (of("allOf", s('"maxLength":5'), s('"minLength":1')), of("allOf", s('"minLength":1')), "B"),
    (of("allOf", s('"maxLength":5'), s('"minLength":1')), s('"maxLength":5'), "B"),
    (of("allOf", S), of("oneOf", S), "BF"),
    (of("allOf", S, s('"minLength":1')), of("anyOf", S, s('"minLength":1')), "B"),
    (of("oneOf", obj(f'"a":{S}'), N), of("oneOf", obj(""), N), "B"),
    (f'{{"not":{S}}}', f'{{"not":{S}}}', "BF"),
    ('{"not":{"type":"number"}}', '{"not":{"type":"integer"}}', "B"),
    (f'{{"not":{S}}}', f'{{"not":{N}}}', ""),
    # References.
    (_DEFINED % S, _DEFINED % S, "BF"),
    (_DEFINED % W, _DEFINED % N, "B"),
    (_DEFINED % S, _DEFINED % N, ""),
    (_DEFINED % S, obj(f'"a":{S}'), "BF"),
    (_DEFINED % W, obj(f'"a":{N}'), "B"),
    (_LIST % W, _LIST % W, "BF"),
    (_LIST % W, _LIST % N, "B"),
    (_LIST % W, _LIST % S, ""),
    ('{"$ref":"#"}', '{"$ref":"#"}', "BF"),
    # Draft 2020-12.
    (modern(arr(f'"prefixItems":[{S}]')), modern(arr(f'"prefixItems":[{S},{S}]')), "F"),
    (modern(arr(f'"prefixItems":[{S}],"items":false')), modern(arr(f'"prefixItems":[{S}]')), "B"),
    (modern(arr(f'"prefixItems":[{W}]')), modern(arr(f'"prefixItems":[{N}]')), "B"),
    (modern(arr(f'"items":{W}')), modern(arr(f'"items":{N}')), "B"),
    (modern(obj("", '"unevaluatedProperties":false')), modern(obj("")), "B"),
    (modern(obj("", '"unevaluatedProperties":false')), modern(obj(f'"a":{S}', '"unevaluatedProperties":false')), "B"),
    (modern(obj("", '"dependentRequired":{"a":["b"]}')), modern(obj("")), "B"),
    (modern(arr('"minContains":2')), modern(arr('"minContains":1')), "B"),
    (
        modern('{"$defs":{"x":{"type":"integer"}},"$ref":"#/$defs/x"}'),
        modern('{"$defs":{"x":{"type":"number"}},"$ref":"#/$defs/x"}'),
        "B",
    ),
    (
        modern('{"$defs":{"x":{"$anchor":"here","type":"integer"}},"$ref":"#here"}'),
        modern('{"type":"number"}'),
        "B",
    ),
]
