/**
 * A space's rules for its work as JSON: over HTTP with a revision, and in the server's configuration. What is left out
 * stays as it is in the server's configuration; `types` is given as a whole.
 */
import Type, { type Static } from "typebox";
import { nearest } from "../core/nearest.js";
import { type ClaimTimes, type NodePolicy, policyProblem, type TypePolicy } from "../core/nodes/policy.js";
import { type Phase, phases } from "../core/nodes/records.js";
import { reply, request } from "./fields.js";
import { nodeWordPattern, phaseField, statusesMax, typesMax, wordCharsMax } from "./node-fields.js";

/** Below a second no heartbeat comes in time. */
const durationMinMs = 1000;
/** A week: what nobody has spoken for in that time is nobody's. */
const durationMaxMs = 7 * 24 * 3_600_000;
/** As good as never parked. */
const reclaimsMaxMax = 1000;

interface Bounds {
  readonly of: keyof ClaimTimes;
  readonly min: number;
  readonly max: number;
  readonly description: string;
}

const duration = (of: keyof ClaimTimes, description: string): Bounds => ({
  of,
  min: durationMinMs,
  max: durationMaxMs,
  description,
});

/** The wire's names of the numbers, in the order in which they are shown. */
const numbers = {
  claim_ttl_ms: duration("claimTtlMs", "How long a claim lasts without a heartbeat."),
  claim_ttl_max_ms: duration("claimTtlMaxMs", "How far an extend may reach from now."),
  reserve_grace_ms: duration("reserveGraceMs", "How long a reserved claim is kept without heartbeats."),
  reclaims_max: {
    of: "reclaimsMax",
    min: 0,
    max: reclaimsMaxMax,
    description: "Work that was lost more often than this without a clean release is parked.",
  },
} as const satisfies Record<string, Bounds>;

const numberField = ({ min, max, description }: Bounds) =>
  Type.Integer({ minimum: min, maximum: max, description });

const timeFields = {
  claim_ttl_ms: Type.Optional(numberField(numbers.claim_ttl_ms)),
  claim_ttl_max_ms: Type.Optional(numberField(numbers.claim_ttl_max_ms)),
  reserve_grace_ms: Type.Optional(numberField(numbers.reserve_grace_ms)),
  reclaims_max: Type.Optional(numberField(numbers.reclaims_max)),
};

/** In a request, names are checked as they come; in a reply they are what the space has. */
const word = Type.String({ pattern: nodeWordPattern });
const statuses = Type.Record(word, phaseField, {
  minProperties: 1,
  maxProperties: statusesMax,
  additionalProperties: false,
  propertyNames: { maxLength: wordCharsMax },
  description:
    "Each status, whose name has a letter in it, and what it means. The first planned one is what a new node gets.",
});

const TypeRules = request("NodeTypePolicy", { statuses, ...timeFields });

const types = Type.Record(word, TypeRules, {
  minProperties: 1,
  maxProperties: typesMax,
  additionalProperties: false,
  propertyNames: { maxLength: wordCharsMax },
  description: "Every type of the space, with times of its own where they differ.",
});

export const SetPolicyRequest = request(
  "SetPolicyRequest",
  {
    revision: Type.Integer({
      minimum: 0,
      description: "As it was read; 0 if the space had none of its own.",
    }),
    ...timeFields,
    types: Type.Optional(types),
  },
  { examples: [{ revision: 0, claim_ttl_ms: 1_800_000 }] },
);
export type SetPolicyRequest = Static<typeof SetPolicyRequest>;

export const PolicyView = reply("NodePolicy", {
  revision: Type.Integer({ minimum: 0, description: "0: what the server's configuration says." }),
  claim_ttl_ms: Type.Integer(),
  claim_ttl_max_ms: Type.Integer(),
  reserve_grace_ms: Type.Integer(),
  reclaims_max: Type.Integer(),
  types: Type.Record(
    Type.String(),
    reply("NodeTypeRules", { statuses: Type.Record(Type.String(), phaseField) }),
  ),
});
export type PolicyView = Static<typeof PolicyView>;

const numberNames = Object.keys(numbers) as readonly (keyof typeof numbers)[];

/** The rules as JSON, without their revision. */
export function policyJson(policy: NodePolicy): Omit<PolicyView, "revision"> {
  const times = (from: Partial<ClaimTimes>): Record<string, number> =>
    Object.fromEntries(
      numberNames.flatMap((name) => {
        const value = from[numbers[name].of];
        return value === undefined ? [] : [[name, value]];
      }),
    );
  const own = Object.entries(policy.types).map(([name, type]): [string, PolicyView["types"][string]] => [
    name,
    { statuses: { ...type.statuses }, ...times(type) },
  ]);
  return { ...times(policy), types: Object.fromEntries(own) } as Omit<PolicyView, "revision">;
}

export type ReadPolicy = { readonly values: NodePolicy } | { readonly problem: string };

/** The rules that a document makes of the ones below it, or what is wrong with it, naming the key. */
export function readPolicy(document: unknown, base: NodePolicy): ReadPolicy {
  try {
    const found = fieldsOf(document, "", [...numberNames, "types"]);
    const values: NodePolicy = {
      ...base,
      ...timesIn(found, ""),
      ...(found["types"] === undefined ? {} : { types: typesIn(found["types"]) }),
    };
    const problem = policyProblem(values);
    return problem === null ? { values } : { problem };
  } catch (error) {
    if (error instanceof Misfit) return { problem: error.message };
    throw error;
  }
}

class Misfit extends Error {}

function fieldsOf(value: unknown, at: string, known: readonly string[] | null): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Misfit(`${at === "" ? "the document" : at} must be an object`);
  for (const key of Object.keys(value)) {
    const isKnown = known === null ? isWord(key) : known.includes(key);
    if (isKnown) continue;
    const place = at === "" ? "" : `${at}.`;
    if (known === null)
      throw new Misfit(
        `${place}${key.slice(0, 80)} is no name: use lower-case letters, digits and -, at most ${wordCharsMax}`,
      );
    const near = nearest(key, known);
    throw new Misfit(
      `${place}${key.slice(0, 80)} is unknown${near === undefined ? "" : `, did you mean ${near}?`} (known: ${known.join(", ")})`,
    );
  }
  return value as Record<string, unknown>;
}

const isWord = (text: string): boolean =>
  text.length <= wordCharsMax && new RegExp(nodeWordPattern).test(text);

function timesIn(found: Record<string, unknown>, at: string): Partial<ClaimTimes> {
  const times: { -readonly [Time in keyof ClaimTimes]?: number } = {};
  for (const name of numberNames) {
    const value = found[name];
    if (value === undefined) continue;
    const { of, min, max } = numbers[name];
    if (typeof value !== "number" || !Number.isInteger(value) || value < min || value > max)
      throw new Misfit(`${at}${name} must be a whole number from ${min} to ${max}`);
    times[of] = value;
  }
  return times;
}

function typesIn(value: unknown): NodePolicy["types"] {
  const found = Object.entries(bounded(fieldsOf(value, "types", null), "types", typesMax));
  return Object.fromEntries(
    found.map(([name, type]): [string, TypePolicy] => {
      const at = `types.${name}`;
      const fields = fieldsOf(type, at, ["statuses", ...numberNames]);
      return [
        name,
        { statuses: statusesIn(fields["statuses"], `${at}.statuses`), ...timesIn(fields, `${at}.`) },
      ];
    }),
  );
}

function statusesIn(value: unknown, at: string): TypePolicy["statuses"] {
  const found = Object.entries(bounded(fieldsOf(value, at, null), at, statusesMax));
  for (const [name, phase] of found)
    if (!(phases as readonly unknown[]).includes(phase))
      throw new Misfit(`${at}.${name} must be one of ${phases.join(", ")}`);
  return Object.fromEntries(found) as Record<string, Phase>;
}

function bounded(found: Record<string, unknown>, at: string, max: number): Record<string, unknown> {
  const { length } = Object.keys(found);
  if (length < 1 || length > max) throw new Misfit(`${at} must have 1 to ${max} entries`);
  return found;
}
