// Hostile input by chance: JSON bodies that are almost right, bytes that are no text, odd numbers, keys and names. The
// same seed gives the same input; fast-check prints the seed when a property fails. FUZZ_SEED runs that seed again,
// FUZZ_RUNS as many cases of each property as one has patience for.
import fc from "fast-check";
import { hostileNames } from "./hostile-names.js";

const { FUZZ_SEED, FUZZ_RUNS } = process.env;

/** How often a property is tried; `usually` in the ordinary run. */
export const runs = (usually: number): { numRuns: number; seed: number } => ({
  numRuns: FUZZ_RUNS === undefined ? usually : Number(FUZZ_RUNS),
  seed: FUZZ_SEED === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(FUZZ_SEED),
});

/** Text of a JSON value, right or wrong. */
const numbers = fc.constantFrom(
  ...["0", "-0", "-1", "1", "1.5", "1e0", "60.0", "6e1", "1e308", "1e309", "-1e400", "1e-400"],
  ...["9007199254740991", "9007199254740993", "18446744073709551616", `1${"0".repeat(400)}`, "0.1e1"],
  ...["01", "+1", "0x10", "1_000", "NaN", "Infinity", ".5", "5."],
);
const oddTexts = fc.constantFrom(
  ...['""', '"\\u0000"', '"\\ud800"', '"\\udc00\\ud800"', '"\\ud83d\\ude42"', '"\\uD800\\u0041"', '"\u2028"'],
  ...[
    '"\\x41"',
    '"\n"',
    "'a'",
    `"${"x".repeat(2000)}"`,
    `"${"é".repeat(1024)}"`,
    `"${"\\u0000".repeat(1024)}"`,
  ],
);
const names = fc.constantFrom(...hostileNames.map(({ name }) => JSON.stringify(name)));
const nested = fc
  .tuple(fc.constantFrom(3, 100, 5000), fc.constantFrom(["[", "]"], ['{"a":', "}"]))
  .map(([depth, [open, close]]) => `${open.repeat(depth)}1${close.repeat(depth)}`);
const structures = fc.constantFrom(
  ...["null", "true", "false", "{}", "[]", "[[]]", "[null]", '{"length":1}', '{"0":"a"}', "undefined", ""],
  ...[
    '{"__proto__":{"role":"operator"}}',
    '{"constructor":{"prototype":{"x":1}}}',
    '{"toJSON":1}',
    '{"then":1}',
  ],
  ...['{"\\u005f_proto__":{}}', '{"$ref":"#"}', '{"a":1,"a":2}'],
);
export const values: fc.Arbitrary<string> = fc.oneof(numbers, oddTexts, names, nested, structures);

export const keys: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(
    ...[
      "__proto__",
      "constructor",
      "prototype",
      "toString",
      "hasOwnProperty",
      "valueOf",
      "then",
      "length",
      "0",
      "",
    ],
    ...["acl", "ttl", "role", "principal", "space", "lease_ID", "Lease_id", "metadata ", "a".repeat(3000)],
  ),
  fc.constantFrom(...hostileNames.map(({ name }) => name)),
  fc.string({ maxLength: 20 }),
);

/** What is done to a body: to its fields first, then to its bytes. */
export interface Damage {
  readonly fields: readonly FieldDamage[];
  readonly bytes: readonly ByteDamage[];
}

type FieldDamage =
  | { readonly kind: "set"; readonly nth: number; readonly value: string }
  | { readonly kind: "drop"; readonly nth: number }
  | { readonly kind: "add"; readonly key: string; readonly value: string }
  | { readonly kind: "twice"; readonly nth: number; readonly value: string };

type ByteDamage =
  | { readonly kind: "insert"; readonly at: number; readonly bytes: readonly number[] }
  | { readonly kind: "cut"; readonly at: number }
  | { readonly kind: "flip"; readonly at: number; readonly bit: number };

const nth = fc.nat(8);
const fieldDamage: fc.Arbitrary<FieldDamage> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("set" as const), nth, value: values }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("drop" as const), nth }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("add" as const), key: keys, value: values }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("twice" as const), nth, value: values }) },
);

const at = fc.nat(1000);
/** No UTF-8, a byte order mark, NUL, half of CRLF, a lone surrogate in CESU-8, and what ends a JSON text early. */
const badBytes = fc.constantFrom(
  ...[[0xff], [0xc0, 0xaf], [0xe2, 0x82], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0x80]],
  ...[[0xef, 0xbb, 0xbf], [0], [0x0d], [0x22], [0x5c], [0x7d], [0x2c]],
);
const byteDamage: fc.Arbitrary<ByteDamage> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("insert" as const), at, bytes: badBytes }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("cut" as const), at }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("flip" as const), at, bit: fc.nat(7) }) },
);

export const damage: fc.Arbitrary<Damage> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      fields: fc.array(fieldDamage, { minLength: 1, maxLength: 2 }),
      bytes: fc.constant([]),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      fields: fc.constant([]),
      bytes: fc.array(byteDamage, { minLength: 1, maxLength: 3 }),
    }),
  },
);

/** The body as JSON text with the damage done, as it goes over the wire. */
export function damaged(body: Readonly<Record<string, unknown>>, { fields, bytes }: Damage): Buffer {
  const pairs = Object.entries(body).map(([key, value]): [string, string] => [key, JSON.stringify(value)]);
  for (const each of fields) {
    const index = "nth" in each && pairs.length > 0 ? each.nth % pairs.length : 0;
    const key = pairs[index]?.[0] ?? "metadata";
    if (each.kind === "drop") pairs.splice(index, 1);
    else if (each.kind === "set") pairs.splice(index, 1, [key, each.value]);
    else pairs.push([each.kind === "add" ? each.key : key, each.value]);
  }
  const text = `{${pairs.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join(",")}}`;
  let sent = Buffer.from(text);
  for (const each of bytes) {
    const place = each.at % (sent.length + 1);
    if (each.kind === "cut") sent = sent.subarray(0, place);
    else if (each.kind === "insert")
      sent = Buffer.concat([sent.subarray(0, place), Buffer.from(each.bytes), sent.subarray(place)]);
    else if (place < sent.length) sent.writeUInt8(sent.readUInt8(place) ^ (1 << each.bit), place);
  }
  return sent;
}
