/**
 * The words every schema of the wire is built from: bounds, ids, times, and the two shapes "a request refuses
 * what it does not know" and "a reply may gain fields". Schemas are plain JSON Schema, so the same object
 * validates a request, documents it in OpenAPI and gives its TypeScript type.
 */
import Type, {
  type Static,
  type TObject,
  type TObjectOptions,
  type TProperties,
  type TSchema,
} from "typebox";

/** The bounds a caller meets. Passed in, because an operator's policy may move them. */
export interface WireLimits {
  readonly ttlSecondsMax: number;
  readonly waitSecondsMax: number;
  readonly lockDelaySecondsMax: number;
  readonly sessionTtlSecondsMin: number;
  readonly sessionTtlSecondsMax: number;
  readonly tokenExpirySecondsMax: number;
  readonly metadataCharsMax: number;
  readonly progressCharsMax: number;
  readonly noteCharsMax: number;
  readonly ownerCharsMax: number;
  readonly reasonCharsMax: number;
  readonly nameCharsMax: number;
  readonly idCharsMax: number;
  readonly cursorCharsMax: number;
  readonly tokenNameCharsMax: number;
  readonly scopeCharsMax: number;
  readonly scopesMax: number;
  readonly candidatesMax: number;
  readonly bulkMax: number;
  readonly pageMax: number;
}

export const wireLimitsDefault: WireLimits = {
  /** Seconds. One day: a crashed worker must not look busy for longer. */
  ttlSecondsMax: 86_400,
  /** Seconds. Ten minutes: proxies cut longer silent requests, and a repeat with the same request id keeps its place. */
  waitSecondsMax: 600,
  /** Seconds. Long enough for a stalled request to die, short enough to wait out. */
  lockDelaySecondsMax: 60,
  /** Seconds. Below five, one slow garbage collection or lost packet ends a healthy worker. */
  sessionTtlSecondsMin: 5,
  /** Seconds. A session stands for a live process; after an hour of silence there is none. */
  sessionTtlSecondsMax: 3_600,
  /** Seconds. Ten years: anything longer means "never", which is said by leaving it out. */
  tokenExpirySecondsMax: 315_360_000,
  /** Code points. Room for a URL and a sentence, not a payload: it is read with every view of the lock. */
  metadataCharsMax: 1_024,
  /** Code points. As metadata: replaced by every heartbeat. */
  progressCharsMax: 1_024,
  /** Code points. As metadata: kept with the outcome. */
  noteCharsMax: 1_024,
  /** Code points. A label for people; it stands in every list row. */
  ownerCharsMax: 256,
  /** Code points. A sentence for the audit trail and for the worker that lost its lease. */
  reasonCharsMax: 256,
  /** Code points. The rules for names bound the UTF-8 bytes to 256; no name of more code points can pass them. */
  nameCharsMax: 256,
  /** Characters. Ids given out are about 30 long; callers' own request ids are often two UUIDs and a label. */
  idCharsMax: 128,
  /** Characters. A cursor holds a name (256 bytes, grown by encoding) and little else. */
  cursorCharsMax: 1_024,
  /** Characters. It is a principal's name, shown wherever a holder is. */
  tokenNameCharsMax: 64,
  /** Code points. A scope is a name with `*` in it, so it is as long as a name. */
  scopeCharsMax: 256,
  /** Scopes per bearer token: all are matched on every request. */
  scopesMax: 32,
  /** Names in one claim: each may be read and refused within one atomic step. */
  candidatesMax: 100,
  /** Leases in one bulk heartbeat: what one commit writes without delaying others. */
  bulkMax: 1_000,
  /** Rows in one page: about half a megabyte of JSON with full metadata. */
  pageMax: 1_000,
};

/** Largest fencing token: the largest integer that JSON carries exactly through every client. */
const tokenMax = Number.MAX_SAFE_INTEGER;

/** A request body or query: what it does not know is refused, so that a misspelt option never silently does nothing. */
export function request<P extends TProperties>(
  title: string,
  fields: P,
  more: TObjectOptions = {},
): TObject<P> {
  return Type.Object(fields, { title, additionalProperties: false, ...more });
}

/** A reply: open, because replies may gain fields and a client must not refuse them. */
export function reply<P extends TProperties>(
  title: string,
  fields: P,
  more: TObjectOptions = {},
): TObject<P> {
  return Type.Object(fields, { title, ...more });
}

/** One of a few words. */
export function choice<const W extends string[]>(words: readonly [...W], description?: string) {
  return Type.Enum(words, { type: "string", ...(description === undefined ? {} : { description }) });
}

export function nullable<T extends TSchema>(schema: T, description?: string) {
  return Type.Union([schema, Type.Null()], description === undefined ? {} : { description });
}

export const instant = Type.String({ format: "date-time", description: "RFC 3339, UTC, ends in `Z`." });
export const durationMs = Type.Integer({ minimum: 0 });
export const count = Type.Integer({ minimum: 0 });
export const expiresInMs = Type.Integer({
  minimum: 0,
  description: "Milliseconds left when the reply was made. Count from before you sent the request.",
});
export const retryAfterMs = Type.Integer({ minimum: 0, description: "When trying again may help." });
export const nextCursor = nullable(
  Type.String(),
  "Pass as `cursor` for the next page; null: this is the last.",
);

export const fencingToken = Type.Integer({
  minimum: 0,
  maximum: tokenMax,
  description:
    "Rises with every grant of this name, for ever. Pass it along; let the resource refuse a lower one.",
});

/** What a holder said about itself, as anyone may read it: a lock's text, or a job's text or object. */
export const anyMetadata = Type.Union(
  [Type.String(), Type.Record(Type.String(), Type.Unknown()), Type.Null()],
  {
    description: "What the holder said about itself.",
  },
);
export type AnyMetadata = Static<typeof anyMetadata>;

/** How the last lease of a name ended. */
export const PreviousHolder = reply("PreviousHolder", {
  principal: Type.String(),
  owner: nullable(Type.String()),
  token: fencingToken,
  ended_at: instant,
  how: choice(["released", "expired", "forced", "session"]),
  by: Type.Optional(nullable(Type.String(), "Who forced the end.")),
  reason: Type.Optional(nullable(Type.String(), "Why, in the words of who forced it.")),
});
export type PreviousHolder = Static<typeof PreviousHolder>;

export function ttlSeconds(limits: WireLimits, description: string) {
  return Type.Integer({ minimum: 1, maximum: limits.ttlSecondsMax, description });
}

export function waitSeconds(limits: WireLimits) {
  return Type.Integer({
    minimum: 0,
    maximum: limits.waitSecondsMax,
    default: 0,
    description: "Wait this long for the name to become free, first come, first served; 0 answers at once.",
  });
}

export function leaseId(limits: WireLimits) {
  return Type.String({
    minLength: 1,
    maxLength: limits.idCharsMax,
    description: "The secret that proves the lease, as the grant gave it.",
  });
}

export function sessionId(limits: WireLimits) {
  return Type.String({
    minLength: 1,
    maxLength: limits.idCharsMax,
    description: "Bind the lease to this session: it is over when the session is.",
  });
}

export function requestId(limits: WireLimits) {
  return Type.String({
    minLength: 1,
    maxLength: limits.idCharsMax,
    pattern: "^[ -~]+$",
    description:
      "Makes the claim safe to repeat: the same id with the same body gives the same lease, never a second grant. Same as the `Idempotency-Key` header.",
  });
}

/** A name inside a body. Only its size is bounded here; core decides what a name is. */
export function nameField(limits: WireLimits) {
  return Type.String({ minLength: 1, maxLength: limits.nameCharsMax });
}

/** Query strings arrive as text and nothing is coerced, so a page size is a short run of digits. */
export const pageSizePattern = "^[0-9]{1,4}$";

/** The two fields of every paged list. */
export function paging(limits: WireLimits) {
  return {
    limit: Type.Optional(
      Type.String({ pattern: pageSizePattern, description: `Rows in this page, 1 to ${limits.pageMax}.` }),
    ),
    cursor: Type.Optional(
      Type.String({ maxLength: limits.cursorCharsMax, description: "`next_cursor` of the page before." }),
    ),
  };
}

export function prefixField(limits: WireLimits) {
  return Type.String({ maxLength: limits.nameCharsMax, description: "Only names that start with this." });
}

export const mineField = choice(
  ["true", "false", "1", "0"],
  "Only what this bearer token's principal holds.",
);

/** The body of a route that takes none: `{}`, or nothing at all. */
export const EmptyRequest = request("EmptyRequest", {});
export type EmptyRequest = Static<typeof EmptyRequest>;
