/** The words that the schemas of the work graph are built from: its bounds, its patterns, and the view of a lease. */
import Type, { type Static } from "typebox";
import { nodeIdMax } from "../core/limits.js";
import { edgeTypes, phases, priorities } from "../core/nodes/records.js";
import { choice, expiresInMs, fencingToken, instant, nullable, reply } from "./fields.js";

/** Ids, types and statuses. They stand in paths, names and indexes, so they are few characters and need no encoding. */
export const nodeWordPattern = "^[a-z0-9][a-z0-9-]*$";
/** Labels: shown in messages and tables as they are. */
export const printablePattern = "^[ -~]+$";
/** A principal is a bearer token's name. */
export const principalPattern = "^[A-Za-z0-9._-]{1,64}$";

/** Characters. A run's own label, as a CI job's id; shown with every lease. */
export const labelCharsMax = 128;
/** Code points. One line in a list. */
export const titleCharsMax = 256;
/** Code points. Some paragraphs; what is longer belongs where the work is. */
export const summaryCharsMax = 4096;
/** Code points. A repository's or a team's name. */
export const projectCharsMax = 128;
/** Characters. The name of a type or a status. */
export const wordCharsMax = 32;
/** Types of a space, and statuses of a type: what people can tell apart. */
export const typesMax = 32;
export const statusesMax = 32;

/**
 * Fields that the rules for nodes judge, not only the shape of the request: whatever is wrong with them in a body is
 * 422 `invalid_node`.
 */
export const judgedFields: ReadonlySet<string> = new Set([
  "id",
  "type",
  "title",
  "summary",
  "status",
  "priority",
  "project",
  "ms",
  "to",
]);

/** Only its size is bounded here: whether it is an id is for the rules to say. */
export const nodeIdField = Type.String({
  minLength: 1,
  maxLength: nodeIdMax,
  description: "Lower-case letters, digits and `-`, not first.",
});

export const typeField = Type.String({
  maxLength: wordCharsMax,
  pattern: nodeWordPattern,
  description: "One of the space's types; `GET /v1/policy` lists them.",
});
export const statusField = Type.String({
  maxLength: wordCharsMax,
  pattern: nodeWordPattern,
  description: "One of the type's statuses.",
});
export const titleField = Type.String({ minLength: 1, maxLength: titleCharsMax });
export const summaryField = Type.String({ maxLength: summaryCharsMax });
export const projectField = Type.String({ minLength: 1, maxLength: projectCharsMax });
export const priorityField = choice(priorities, "Ranks first in the queue.");
export const edgeTypeField = choice(
  edgeTypes,
  "`assigned` points to a principal, every other type to a node.",
);
export const phaseField = choice(phases, "What a status means: not begun, in work, or over.");

const label = (description: string) =>
  Type.String({ minLength: 1, maxLength: labelCharsMax, pattern: printablePattern, description });

/** The caller's run. */
export const sessionField = label(
  "The caller's own label for this run. A lease bound to one label is not another run's.",
);
export const dispatchField = label(
  "Tells two dispatches of one person apart: a live lease with another one is refused.",
);
export const tokenField = Type.Integer({
  minimum: 0,
  maximum: Number.MAX_SAFE_INTEGER,
  description: "The token of the lease that is meant. Another live one is `lease_lost`, also for its holder.",
});
export const nodeReasonField = (max: number) =>
  Type.String({ minLength: 1, maxLength: max, description: "Why; kept in the history." });

/** Whoever is on a node now, as everybody may see it. */
export const NodeLease = reply("NodeLease", {
  node_id: Type.String(),
  by: Type.String({ description: "The principal." }),
  expires: Type.Integer({ description: "Milliseconds of Unix time." }),
  expires_at: instant,
  expires_in_ms: expiresInMs,
  session: nullable(Type.String(), "The run that it is bound to; null: any run of the same person."),
  claimed_at: instant,
  token: fencingToken,
  reserved: Type.Optional(Type.Literal(true, { description: "Kept without heartbeats until it expires." })),
});
export type NodeLease = Static<typeof NodeLease>;
