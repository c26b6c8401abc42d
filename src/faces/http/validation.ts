/**
 * Checking a body and a query against the wire's schemas, and what a failed check means to the caller: the status,
 * the code, and the nearest right word.
 */
import { Ajv, type ValidateFunction } from "ajv";
import { nearest } from "../../core/nearest.js";
import { EmptyRequest } from "../../wire/fields.js";
import { judgedFields, printablePattern } from "../../wire/node-fields.js";
import type { Route } from "../../wire/routes.js";
import { type Answer, problem } from "./answer.js";
import { isNodePath, nodeProblem } from "./v1-errors.js";

// Nothing is changed to fit: what is not as the schema says is refused.
const ajv = new Ajv({ strict: false, strictNumbers: true, validateFormats: false, verbose: true });

/** What is wrong with a body and a query, or null. */
export type Check = (body: unknown, query: unknown) => Answer | null;

export function checkOf(route: Route): Check {
  const isNode = isNodePath(route.path);
  const body = checkPart(route.body ?? EmptyRequest, "body", isNode);
  const query = checkPart(route.query ?? EmptyRequest, "query", isNode);
  return (givenBody, givenQuery) => (givenBody === undefined ? null : body(givenBody)) ?? query(givenQuery);
}

function checkPart(
  schema: object,
  part: "body" | "query",
  isNode: boolean,
): (value: unknown) => Answer | null {
  const validate: ValidateFunction = ajv.compile(schema);
  return (value) => {
    if (validate(value)) return null;
    const failure = tellingOf(validate.errors ?? []);
    return (isNode && part === "body" ? judged(failure) : null) ?? invalid(failure, part, isNode);
  };
}

/** Where one of several shapes is asked for: what is wrong with the one that was meant. */
const tellingOf = (failures: readonly Failure[]): Failure | undefined =>
  failures.find(({ keyword, data }) => keyword !== "type" || typeof data !== "object" || data === null) ??
  failures[0];

/** A field that the rules for nodes judge: what is wrong with it is not only a wrong shape. */
function judged(failure: Failure | undefined): Answer | null {
  if (failure === undefined || failure.keyword === "additionalProperties") return null;
  const field = fieldOf(failure);
  if (!judgedFields.has(field)) return null;
  if (field === "ms") return nodeProblem("invalid_node", "ms must be a positive number of milliseconds.");
  const what = failure.keyword === "required" ? "is missing" : demandOf(failure);
  return nodeProblem("invalid_node", `${field} ${what}.`);
}

const fieldOf = ({ instancePath, params }: Failure): string =>
  instancePath.slice(1).replaceAll("/", ".") || String(params["missingProperty"] ?? "");

/** What Ajv says about one failure. */
interface Failure {
  readonly keyword: string;
  readonly instancePath: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly message?: string | undefined;
  /** What was given. */
  readonly data?: unknown;
  /** The schema of the object or value that fails. */
  readonly parentSchema?: object | undefined;
}

/** Words that other lock services use and that mean something else here. */
const elsewhere: Readonly<Record<string, string>> = {
  acl: "who may touch a name is decided by token scopes: holdfast token create --scope 'deploy-*'",
  wait_seconds: "a claim among candidates does not wait; wait for one job with POST /jobs/{id}/claim",
  ttl: "the field is ttl_seconds, a whole number",
};

/** The same for the work graph. */
const elsewhereInGraph: Readonly<Record<string, string>> = {
  wait_seconds: "only POST /v1/queue/next waits for work",
  ttl: "how long a claim lasts is the space's policy: GET /v1/policy",
  ttl_seconds: "how long a claim lasts is the space's policy: GET /v1/policy",
  by: "the claimer is always the token's principal",
  owner: "the claimer is always the token's principal",
  assignee: "the claimer is always the token's principal",
  status: "a status is set with POST /v1/nodes/{id}/status",
  lease_id: "a claim is named by its node, and by its token if you send one",
};

function invalid(failure: Failure | undefined, part: "body" | "query", isNode: boolean): Answer {
  if (failure === undefined) return problem("invalid_input", `The ${part} is not valid.`);
  const field = fieldOf(failure);
  if (failure.keyword === "additionalProperties") {
    const word = String(failure.params["additionalProperty"]);
    const known = Object.keys(
      (failure.parentSchema as { properties?: object } | undefined)?.properties ?? {},
    );
    return problem("invalid_input", unknownField(word, known, field, part, isNode));
  }
  if (failure.keyword === "required")
    return problem("invalid_input", `${String(failure.params["missingProperty"])} is missing.`);
  if (/(^|\.)ttl_seconds$/.test(field))
    return problem(
      "invalid_ttl",
      `ttl_seconds ${demandOf(failure)}: give a whole number of seconds within the bounds.`,
    );
  if (failure.keyword === "maxLength" && part === "body")
    return problem("invalid_input", `${field} is too long: it ${failure.message ?? ""}.`, { status: 400 });
  return problem(
    "invalid_input",
    field === "" ? `The ${part} must be a JSON object.` : `${field} ${demandOf(failure)}.`,
  );
}

/** What the schema asks for, in words. */
function demandOf({ keyword, params, message }: Failure): string {
  if (keyword === "enum") return `must be one of ${(params["allowedValues"] as unknown[]).join(", ")}`;
  if (keyword === "minimum") return `must be at least ${params["limit"]}`;
  if (keyword === "maximum") return `must be at most ${params["limit"]}`;
  if (keyword === "type") return `must be ${kindOf(String(params["type"]))}`;
  if (keyword === "pattern" && params["pattern"] === printablePattern)
    return "must be printable ASCII characters only";
  const isOne = params["limit"] === 1;
  if (keyword === "minLength" && isOne) return "must not be empty";
  if (keyword === "minItems" && isOne) return "must name at least one";
  return message ?? "is not valid";
}

/** `integer` is a word of schemas. */
const kindOf = (type: string): string =>
  type === "integer" ? "a whole number" : /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`;

/** Whether the body is said to be in another encoding than UTF-8. */
export const isOtherCharset = (contentType = ""): boolean =>
  contentType !== "application/json" && /;\s*charset\s*=(?!\s*"?utf-?8"?\s*(?:;|$))/i.test(contentType);

/**
 * Whether a parsed body holds half a surrogate pair. Only an escape can bring one in, and it would come out again
 * in every view of the lock, where many JSON readers refuse it. Does not recurse: bodies may be nested deeply.
 */
export function hasHalfCharacter(body: string, parsed: unknown): boolean {
  if (!/\\u[dD][89a-fA-F]/.test(body)) return false;
  const rest: unknown[] = [parsed];
  while (rest.length > 0) {
    const value = rest.pop();
    if (typeof value === "string" && /\p{Surrogate}/u.test(value)) return true;
    if (typeof value === "object" && value !== null)
      for (const [key, inner] of Object.entries(value)) rest.push(key, inner);
  }
  return false;
}

/** `within` is the path of the object it stands in; empty: the body or the query itself. */
function unknownField(
  word: string,
  known: readonly string[],
  within: string,
  part: "body" | "query",
  isNode: boolean,
): string {
  const hints = isNode ? elsewhereInGraph : elsewhere;
  const hint = part === "body" && Object.hasOwn(hints, word) ? hints[word] : undefined;
  if (hint !== undefined) return `Unknown field ${JSON.stringify(word)}: ${hint}.`;
  const near = nearest(word, known);
  const what = part === "body" ? "field" : "parameter";
  const list = known.length === 0 ? "it takes none" : `known: ${known.join(", ")}`;
  return `Unknown ${what} ${JSON.stringify(word.slice(0, 80))}${within === "" ? "" : ` in ${within}`}${near === undefined ? "" : `, did you mean ${near}?`} (${list}).`;
}
