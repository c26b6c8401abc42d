/**
 * Makes the OpenAPI 3.1 document from the route table, and from nothing else, so that it cannot say what the
 * server does not do. Pure: the same routes give the same document.
 */
import type { TSchema } from "typebox";
import { errorMeanings } from "./error-codes.js";
import { pageSizePattern } from "./fields.js";
import { nodeErrorMeanings } from "./node-errors.js";
import type { Reply, RequestHeader, Route, Tag } from "./route.js";

type Json = Record<string, unknown>;

export interface ApiInfo {
  readonly version: string;
  /** Where the API is served. `/`, the document's own origin, if left out. */
  readonly serverUrl?: string;
}

const tags: Record<Tag, string> = {
  locks: "Named leases with fencing tokens.",
  jobs: "The same leases in the words of work: claim, heartbeat, owner, release.",
  sessions: "One keepalive for all the leases of a worker.",
  nodes: "Claims on a work graph: a durable edge says who carried it, a lease who is on it now.",
  tokens: "Who may call. For admins.",
  operate: "Health, metrics, audit, backup.",
};

/** What stands in the braces of a path; the same word means another thing in each group. */
const pathParameters: Record<string, Json> = {
  "locks.name": {
    description:
      "The lock's name: one percent-encoded segment (`/` as `%2F`), 1 to 256 bytes of `A–Z a–z 0–9 . _ : / @ + -`, or `path:` and a file's path.",
    example: "deploy-main",
  },
  "jobs.id": { description: "The job's id: job `issue-1842` is lock `issue-1842`.", example: "issue-1842" },
  "nodes.id": {
    description: "The node's id: `a–z 0–9 -`. Its lease is the lock `node:<id>`.",
    example: "task-api-rate-limits",
  },
  "sessions.id": { description: "The session's id. Secret.", example: "ss_7Qm2" },
  "tokens.id": { description: "The token's id, as listed; not the secret.", example: "tk_9f3a" },
};

const headerParameters: Record<RequestHeader, Json> = {
  "Idempotency-Key": {
    name: "Idempotency-Key",
    in: "header",
    description: "Same as `request_id` in the body: a repeat gives the same lease, never a second grant.",
    schema: { type: "string", minLength: 1, maxLength: 128 },
  },
  "Last-Event-ID": {
    name: "Last-Event-ID",
    in: "header",
    description: "Resume after this event.",
    schema: { type: "string" },
  },
  "Holdfast-Space": {
    name: "Holdfast-Space",
    in: "header",
    description: "The space to act in, if it is not the token's own. Only the operator may name another.",
    schema: { type: "string", pattern: "^[A-Za-z0-9._-]{1,64}$" },
  },
};

const requestIdHeader = { "X-Request-Id": { $ref: "#/components/headers/X-Request-Id" } };
const retryHeaders = { ...requestIdHeader, "Retry-After": { $ref: "#/components/headers/Retry-After" } };

export function openapi(routes: readonly Route[], info: ApiInfo): Json {
  const schemas = new Map<string, Json>();
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = paths[route.path] ?? {};
    path[route.method.toLowerCase()] = operation(route, schemas);
    paths[route.path] = path;
  }
  return {
    openapi: "3.1.0",
    info: { title: "Holdfast", version: info.version, description: intro() },
    servers: [{ url: info.serverUrl ?? "/" }],
    tags: Object.entries(tags).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      schemas: Object.fromEntries([...schemas].sort(([a], [b]) => (a < b ? -1 : 1))),
      parameters: headerParameters,
      headers: {
        "X-Request-Id": { description: "The trace id of this response.", schema: { type: "string" } },
        "Retry-After": { description: "Seconds.", schema: { type: "integer", minimum: 0 } },
      },
      securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
    },
  };
}

interface Meaning {
  readonly statuses: readonly number[];
  readonly meaning: string;
}

function intro(): string {
  const listed = (meanings: Readonly<Record<string, Meaning>>): string =>
    Object.entries(meanings)
      .map(([code, { statuses, meaning }]) => `- \`${code}\` (${statuses.join(", ")}): ${meaning}`)
      .join("\n");
  return [
    "One live owner per job: leases with fencing tokens over HTTP.",
    "An empty body counts as `{}`. Unknown fields in requests are refused; replies may gain fields.",
    `Error codes:\n\n${listed(errorMeanings)}`,
    `Error codes under \`/v1\`:\n\n${listed(nodeErrorMeanings)}`,
  ].join("\n\n");
}

function operation(route: Route, schemas: Map<string, Json>): Json {
  const parameters = [
    ...[...route.path.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => pathParameter(route.tag, name)),
    ...queryParameters(route.query),
    ...(route.headers ?? []).map((name) => ({ $ref: `#/components/parameters/${name}` })),
  ];
  return {
    operationId: route.id,
    tags: [route.tag],
    summary: route.summary,
    description: route.description,
    "x-access": route.access,
    security: route.access === "open" ? [] : [{ bearer: [] }],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(route.body === undefined ? {} : { requestBody: requestBody(route.body, schemas) }),
    responses: Object.fromEntries(
      Object.entries(route.replies).map(([status, reply]) => [
        status,
        response(Number(status), reply, schemas),
      ]),
    ),
  };
}

function pathParameter(tag: Tag, name: string): Json {
  const about = pathParameters[`${tag}.${name}`];
  if (about === undefined) throw new Error(`path parameter {${name}} of ${tag} has no description`);
  return { name, in: "path", required: true, ...about, schema: { type: "string", minLength: 1 } };
}

function queryParameters(query: TSchema | undefined): Json[] {
  if (query === undefined) return [];
  const { properties, required } = fields(query);
  const needed = Array.isArray(required) ? required : [];
  return Object.entries(fields(properties)).map(([name, value]) => {
    const { description, ...schema } = fields(value);
    // Nothing is coerced in the server, so it checks digits; to a client a page size is a number.
    const digits = schema.pattern === pageSizePattern;
    return {
      name,
      in: "query",
      required: needed.includes(name),
      description,
      schema: digits ? { type: "integer", minimum: 1 } : schema,
    };
  });
}

function requestBody(body: TSchema, schemas: Map<string, Json>): Json {
  const { required } = fields(body);
  return {
    required: Array.isArray(required) && required.length > 0,
    content: media("application/json", body, schemas),
  };
}

function response(status: number, reply: Reply, schemas: Map<string, Json>): Json {
  const { description, schema, contentType = "application/json" } = reply;
  const headers = [409, 429, 503].includes(status) ? retryHeaders : requestIdHeader;
  return {
    description,
    headers,
    ...(schema === undefined ? {} : { content: media(contentType, schema, schemas) }),
  };
}

function media(contentType: string, schema: TSchema, schemas: Map<string, Json>): Json {
  return { [contentType]: { schema: lift(schema, schemas) } };
}

/** A schema with a title becomes a component and is referred to by it; the rest stays where it stands. */
function lift(schema: unknown, schemas: Map<string, Json>): Json {
  const lifted: Json = {};
  for (const [keyword, value] of Object.entries(fields(schema))) {
    if (keyword === "properties" || keyword === "patternProperties") {
      lifted[keyword] = Object.fromEntries(
        Object.entries(fields(value)).map(([name, each]) => [name, lift(each, schemas)]),
      );
    } else if (keyword === "items") lifted[keyword] = lift(value, schemas);
    else if (keyword === "anyOf" && Array.isArray(value))
      lifted[keyword] = value.map((each) => lift(each, schemas));
    else lifted[keyword] = value;
  }
  const { title } = lifted;
  if (typeof title !== "string") return lifted;
  const known = schemas.get(title);
  if (known !== undefined && JSON.stringify(known) !== JSON.stringify(lifted)) {
    throw new Error(`two different schemas have the title ${title}`);
  }
  schemas.set(title, lifted);
  return { $ref: `#/components/schemas/${title}` };
}

/** A schema's own enumerable fields: TypeBox keeps its marks beside them, hidden. */
function fields(schema: unknown): Json {
  return typeof schema === "object" && schema !== null ? Object.fromEntries(Object.entries(schema)) : {};
}
