// How the HTTP tests speak to a server: by route id, over node:http (which sends paths as they stand), and with
// every reply checked against what the route table says about it. A status or a field that the table does not
// document fails the test that met it, so documents and replies cannot drift apart.
import assert from "node:assert/strict";
import { Agent, request as httpRequest, type IncomingHttpHeaders } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { Ajv, type ValidateFunction } from "ajv";
import { ErrorBody } from "../src/wire/errors.js";
import { wireLimitsDefault } from "../src/wire/fields.js";
import { NodeErrorBody } from "../src/wire/node-errors.js";
import { type Route, type RouteId, routes } from "../src/wire/routes.js";
import { lapsedMs } from "./engines/store-of.js";
import type { Server } from "./server.js";

export type Target = Pick<Server, "port">;

/** The fields that tests read, whichever reply they come in; the schemas check that they are there. */
export interface Body {
  status: string;
  name: string;
  lease_id: string;
  fencing_token: number;
  expires_at: string;
  expires_in_ms: number;
  renew_after_ms: number;
  heartbeat_after_ms: number;
  retry_after_ms: number;
  available_at: string;
  metadata: unknown;
  holder: { principal: string; session: string | null; since: string; owner?: string } | null;
  holder_id: string | null;
  waiters: number;
  position: number;
  conflicts_with: string;
  previous: Previous;
  current: boolean;
  released: boolean;
  job_id: string;
  claimed: boolean;
  owner: string | null;
  principal: string;
  progress: string | null;
  token: number;
  attempts: number;
  last_outcome: { outcome: string; note: string | null; at: string } | undefined;
  last_heartbeat_at: string;
  candidates: Body[];
  renewed: Body[];
  lost: Body[];
  jobs: Body[];
  locks: Body[];
  total: number;
  prefix: string | null;
  next_cursor: string | null;
  session_id: string;
  leases: number;
  lock_count: number;
  active: boolean;
  keepalive_interval_secs: number;
  space: string;
  role: string;
  scopes: string[];
  records: AuditRow[];
  error: string;
  code: string;
  details: string;
  request_id: string;
}

export interface Previous {
  principal: string;
  owner: string | null;
  token: number;
  ended_at: string;
  how: string;
  by?: string;
  reason?: string;
}

export interface AuditRow {
  id: string;
  at: string;
  principal: string;
  action: string;
  subject: string;
  reason: string | null;
  space: string;
}

/** A bearer token as `POST /tokens` gives it. */
export interface TokenBody {
  id: string;
  name: string;
  token: string;
  role: string;
  scopes: string[];
  space: string;
  expires_at: string | null;
}

export interface Call {
  /** What stands in the path's braces, as it is; encoded here. */
  name?: string;
  /** The same, encoded already. */
  rawName?: string;
  query?: Record<string, string>;
  token?: string | undefined;
  body?: unknown;
  /** Sent as it stands instead of `body`. */
  text?: string | Buffer;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export interface Answered<B = Body> {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
  body: B;
}

export const table = routes(wireLimitsDefault);
/** Whether the route follows the work graph's contract, whose errors are of another shape. */
export const isNodeRoute = ({ tag }: Route): boolean => tag === "nodes";
export const leaseTable = table.filter((route) => !isNodeRoute(route));
export const nodeTable = table.filter(isNodeRoute);
const byId = new Map(table.map((route) => [route.id, route]));

export function routeOf(id: RouteId): Route {
  const route = byId.get(id);
  assert.ok(route, `no route ${id}`);
  return route;
}

const instant = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
export const ajv = new Ajv({ strict: true, allErrors: true, formats: { "date-time": instant } });
const checks = new Map<object, ValidateFunction>();

export function assertSchema(schema: object, value: unknown, what: string): void {
  let check = checks.get(schema);
  if (check === undefined) {
    check = ajv.compile(schema);
    checks.set(schema, check);
  }
  assert.ok(check(value), `${what}: ${ajv.errorsText(check.errors)}\n${JSON.stringify(value, null, 1)}`);
}

const agent = new Agent({ keepAlive: true, maxSockets: 256 });

/** One request, exactly as told. Refusals because this machine is busy are tried again: they did nothing. */
export async function send(
  server: Target,
  method: string,
  path: string,
  { token, body, text, headers = {}, signal }: Call = {},
): Promise<Answered> {
  const payload = text ?? (body === undefined ? undefined : JSON.stringify(body));
  const sent: Record<string, string | number> = { ...headers };
  if (token !== undefined) sent["authorization"] = `Bearer ${token}`;
  if (payload !== undefined) {
    if (text === undefined && sent["content-type"] === undefined) sent["content-type"] = "application/json";
    sent["content-length"] = Buffer.byteLength(payload);
  }
  for (let attempt = 0; ; attempt++) {
    const answered = await once(server, method, path, sent, payload, signal);
    const isBusy = answered.status === 503 && /"The server is busy/.test(answered.text);
    if (!isBusy || attempt === 40) return answered;
    await delay(100);
  }
}

function once(
  { port }: Target,
  method: string,
  path: string,
  headers: Record<string, string | number>,
  payload: string | Buffer | undefined,
  signal: AbortSignal | undefined,
): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, method, path, headers, agent, ...(signal ? { signal } : {}) };
    const outgoing = httpRequest(options, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString();
        const isJson = /\bjson\b/.test(response.headers["content-type"] ?? "") && text !== "";
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          body: (isJson ? JSON.parse(text) : text) as Body,
        });
      });
    });
    outgoing.on("error", reject);
    outgoing.end(payload);
  });
}

export function pathOf(route: Route, { name = "", rawName, query = {} }: Call): string {
  const search = new URLSearchParams(query).toString();
  const path = route.path.replace(/\{\w+\}/, () => rawName ?? encodeURIComponent(name));
  return search === "" ? path : `${path}?${search}`;
}

/** Calls a route and checks the reply against its row. */
export async function call<B = Body>(server: Target, id: RouteId, options: Call = {}): Promise<Answered<B>> {
  const route = routeOf(id);
  const answered = await send(server, route.method, pathOf(route, options), options);
  assertReply(route, answered);
  return answered as unknown as Answered<B>;
}

/** Calls a route that must succeed. */
export async function ok<B = Body>(server: Target, id: RouteId, options: Call = {}): Promise<B> {
  const { status, body, text } = await call<B>(server, id, options);
  assert.ok(status >= 200 && status < 300, `${id} answered ${status}: ${text}`);
  return body;
}

/** What every reply of a route must be. */
export function assertReply(route: Route, { status, headers, text, body }: Answered): void {
  const what = `${route.id} ${status}`;
  assert.match(String(headers["x-request-id"]), /^req_\w+$/, `${what} carries no X-Request-Id`);
  const reply = route.replies[status] ?? undocumented(route, status);
  assert.ok(reply, `${what} is not in the route table: ${text}`);
  if (reply.schema === undefined) assert.equal(text, "", what);
  else {
    const type = reply.contentType ?? "application/json";
    assert.ok(headers["content-type"]?.startsWith(type), `${what}: ${headers["content-type"]}, not ${type}`);
    assertSchema(reply.schema, type === "application/json" ? body : text, what);
  }
  if (status >= 400) assertError({ status, headers, text, body });
}

/** Answers that any path may give before its route is asked: no row documents them. */
function undocumented(route: Route, status: number): Route["replies"][number] | undefined {
  // Checked before the route itself: the Host header, and the limits of HTTP.
  const anywhere = [400, 403, 408, 431];
  // A body where none is taken is still parsed.
  const withBody = route.method === "DELETE" ? [413, 415] : [];
  return [...anywhere, ...withBody].includes(status)
    ? { description: "", schema: isNodeRoute(route) ? NodeErrorBody : ErrorBody }
    : undefined;
}

/** The one error body, with the request id of its own reply. */
export function assertError({ status, headers, body, text }: Answered): void {
  assert.ok(status >= 400, `not an error: ${status} ${text}`);
  assert.match(headers["content-type"] ?? "", /^application\/json/, text);
  if (typeof body.error === "object") {
    assertNodeError({ status, headers, body, text });
    return;
  }
  assertSchema(ErrorBody, body, `error ${status}`);
  assert.equal(body.request_id, headers["x-request-id"]);
  assert.ok(body.details.length > 10 && body.error.length > 2, text);
  if (body.retry_after_ms !== undefined) assert.ok(Number(headers["retry-after"]) >= 1, text);
}

/** The same under /v1. */
function assertNodeError({ status, headers, body, text }: Answered): void {
  assertSchema(NodeErrorBody, body, `error ${status}`);
  const { error } = body as unknown as NodeErrorBody;
  assert.equal(error.details?.["request_id"], headers["x-request-id"]);
  assert.ok(error.message.length > 10, text);
  if (error.details?.["retry_after_ms"] !== undefined) assert.ok(Number(headers["retry-after"]) >= 1, text);
}

/** The code of an error of either shape. */
export const codeOf = ({ body }: Answered): string =>
  typeof body?.error === "object" ? (body as unknown as NodeErrorBody).error.code : body?.code;

/** Calls a route that must be refused, with this status and code. */
export async function refused(
  server: Target,
  id: RouteId,
  options: Call,
  status: number,
  code: string,
): Promise<Body> {
  const answered = await call(server, id, options);
  assert.deepEqual([answered.status, codeOf(answered)], [status, code], answered.text);
  return answered.body;
}

/** Tries again and again until the check holds; fails with its last complaint. */
export async function eventually(check: () => Promise<void>, withinMs = 5000): Promise<void> {
  for (const deadline = performance.now() + withinMs; ; ) {
    try {
      await check();
      return;
    } catch (error) {
      if (performance.now() > deadline) throw error;
      await delay(10);
    }
  }
}

/** Resolves when what lasts so long is over for the engine that is tested. */
export const lapse = (ttlMs: number): Promise<void> => delay(lapsedMs(ttlMs));

/** Resolves once as many requests wait for the name as told. */
export const waitersOn = (server: Target, token: string, name: string, count: number): Promise<void> =>
  eventually(async () => assert.equal((await ok(server, "getLock", { token, name })).waiters, count));

let counter = 0;
/** A name that no other test uses. */
export const fresh = (stem: string): string => `${stem}-${++counter}`;
