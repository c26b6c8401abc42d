/**
 * The HTTP face: registers exactly the routes of the wire's table, puts the gate before each, turns what handlers
 * give back into replies, and every failure into the one error body.
 */
import type { ServerOptions } from "node:https";
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { Identity } from "../../service/identity.js";
import { openapi } from "../../wire/openapi.js";
import { type Route, type RouteId, routes } from "../../wire/routes.js";
import { type Answer, Busy, problem } from "./answer.js";
import { followUnused, makeApp } from "./app.js";
import type { Call, Desk, Handler } from "./call.js";
import { onDeparture } from "./departure.js";
import { answerTo } from "./failures.js";
import { Gate } from "./gate.js";
import type { GateLimits } from "./gate-limits.js";
import { HeldBack } from "./held-back.js";
import * as jobs from "./jobs.js";
import * as locks from "./locks.js";
import { Metrics } from "./metrics.js";
import * as nodeClaims from "./node-claims.js";
import * as nodeQueue from "./node-queue.js";
import * as nodes from "./nodes.js";
import * as operate from "./operate.js";
import { applyCors, checkHost } from "./origin.js";
import { Outbox } from "./outbox.js";
import * as sessions from "./sessions.js";
import { type StreamLimits, Streams, watchLock, watchLocks } from "./stream.js";
import * as tokens from "./tokens.js";
import { inNodeWords, isNodePath, isNodeRequest, withRequestId } from "./v1-errors.js";
import { checkOf } from "./validation.js";

export interface HttpOptions {
  readonly gate: GateLimits;
  readonly streams: StreamLimits;
  readonly connectionsMax: number;
  readonly corsOrigins: readonly string[];
  /** Names by which this server may be called; null: any (it listens beyond loopback). */
  readonly hosts: readonly string[] | null;
  readonly trustProxy: boolean;
  readonly tls: ServerOptions | null;
  readonly scratchDir: string;
  readonly logger: Logger;
}

export interface HttpFace {
  readonly app: FastifyInstance;
  /** From now on /ready says so, waiters and streams are told to come back. */
  stopping(): void;
  close(): Promise<void>;
}

/** What the gate found out about a request. */
interface Context {
  identity: Identity | null;
  space: string;
  readonly arrivedAt: number;
  /** Counts as load. */
  inWork: boolean;
}

declare module "fastify" {
  interface FastifyRequest {
    /** Set by the gate before a body is read. */
    gateContext: Context | null;
  }
}

export function httpFace(desk: Desk, options: HttpOptions): HttpFace {
  let isReady = true;
  const gate = new Gate(desk.tokens, options.gate);
  const streams = new Streams(options.streams);
  desk.leases.stopping.addEventListener("abort", () => streams.close());
  const metrics = new Metrics(desk.leases, desk.nodes, streams, gate);
  const outbox = new Outbox();
  const table = routes(desk.limits);
  const document = openapi(table, { version: desk.version });
  const app = makeApp(options);
  app.server.maxConnections = options.connectionsMax;
  const closeUnused = followUnused(app);
  const handlers: Record<RouteId, Handler> = {
    ...locks,
    ...jobs,
    ...sessions,
    ...tokens,
    ...nodes,
    ...nodeClaims,
    ...nodeQueue,
    watchLock: watchLock(streams),
    watchLocks: watchLocks(streams),
    backup: operate.backup(options.scratchDir),
    health: operate.health,
    ready: operate.ready(() => isReady),
    metrics: operate.metrics(metrics),
    openapi: operate.openapiDocument(document),
    docs: operate.docs,
  };
  for (const route of table)
    register(app, route, handlers[route.id], { desk, gate, metrics, options, outbox });
  answerTheRest(app, table, { desk, gate, metrics, options, outbox });
  return {
    app,
    stopping: () => {
      isReady = false;
      gate.isStopping = true;
      desk.leases.close();
      closeUnused();
    },
    close: async () => {
      gate.close();
      await app.close();
    },
  };
}

interface Registering {
  readonly desk: Desk;
  readonly outbox: Outbox;
  readonly gate: Gate;
  readonly metrics: Metrics;
  readonly options: HttpOptions;
}

/**
 * A request that may have a body is let in before that is read; any other does it all in the handler, because each
 * of Fastify's hooks costs every request a little.
 */
function register(app: FastifyInstance, route: Route, handler: Handler, at: Registering): void {
  const { gate, metrics, options, outbox } = at;
  const check = checkOf(route);
  const readsBody = route.body !== undefined;
  const mayHaveBody = route.method !== "GET";
  const isStream = route.path.endsWith("/watch");
  const isNode = isNodePath(route.path);
  const enter = (request: FastifyRequest, reply: FastifyReply): Context => {
    applyCors(request, reply, options.corsOrigins);
    checkHost(request, options.hosts);
    if (gate.isStopping) reply.header("connection", "close");
    gate.admit(route.load);
    const context: Context = { identity: null, space: "", arrivedAt: performance.now(), inWork: false };
    request.gateContext = context;
    if (route.access === "open" || isOpenHere(route, request)) return context;
    const identity = gate.identify(request.raw.socket, request.headers);
    gate.limitRate(identity);
    gate.requireRole(identity, route.access);
    context.identity = identity;
    context.space = gate.spaceOf(identity, request.headers);
    return context;
  };
  /** Who waits its turn, or only listens, does no work: it must not count as load. */
  const isIdle = (body: unknown): boolean =>
    isStream || (route.load === "take" && ((body as { wait_seconds?: number }).wait_seconds ?? 0) > 0);
  app.route({
    method: route.method,
    url: route.path.replace(/\{(\w+)\}/g, ":$1"),
    config: { routeId: route.id },
    ...(mayHaveBody
      ? {
          onRequest: (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => {
            try {
              enter(request, reply);
              done();
            } catch (error) {
              done(error as Error);
            }
          },
        }
      : {}),
    handler: (request, reply) => {
      const context = request.gateContext ?? enter(request, reply);
      // A body may take its time. Until it is here there is no work, and the token may be revoked meanwhile.
      if (mayHaveBody && context.identity !== null) gate.requireCurrent(context.identity);
      context.inWork = true;
      gate.inWork++;
      const body = readsBody && request.body === undefined ? {} : request.body;
      const { query } = request;
      const wrong = check(body, query);
      if (wrong !== null || isIdle(body)) leaveWork(gate, context);
      const finish = (given: Answer | null): void => {
        const answer = isNode && given !== null ? inNodeWords(given) : given;
        leaveWork(gate, context);
        metrics.record(route.id, answer?.status ?? 200, (performance.now() - context.arrivedAt) / 1000);
        if (answer !== null) outbox.add(reply.raw.socket, () => deliver(reply, answer));
      };
      if (wrong !== null) {
        finish(wrong);
        return;
      }
      const { space } = context;
      const call: Call = {
        desk: at.desk,
        identity: context.identity as Identity,
        space,
        body,
        query,
        request,
        reply,
      };
      handler(call)
        .then(finish, (error: unknown) => finish(answerTo(error, request)))
        .catch((error: unknown) =>
          request.log.error({ err: error, request_id: request.id }, "a reply failed"),
        );
    },
    // A HEAD of these would make a whole stream or copy for nothing.
    ...(isStream || route.id === "backup" ? { exposeHeadRoute: false } : {}),
  });
}

function leaveWork(gate: Gate, context: Context): void {
  if (!context.inWork) return;
  context.inWork = false;
  gate.inWork--;
}

/** Metrics need no token from this machine itself: every hop must be, since a caller can claim what it likes. */
const isOpenHere = (route: Route, request: FastifyRequest): boolean =>
  route.id === "metrics" &&
  request.headers.authorization === undefined &&
  request.headers["x-forwarded-for"] === undefined &&
  request.headers.forwarded === undefined &&
  (request.ips ?? [request.ip]).every((ip) => /^(127\.|::1$|::ffff:127\.)/.test(ip));

function deliver(reply: FastifyReply, answer: Answer): void {
  const { undelivered } = answer;
  if (undelivered !== undefined) {
    // A caller that closed its side is hung up on by Node before it says that the connection is closed. The request's socket: a reply
    // has none yet while another of the same connection is before it.
    if (!reply.request.raw.socket.writable) undelivered();
    else onDeparture(reply, () => reply.raw.writableFinished || undelivered());
  }
  send(reply, answer);
}

function send(reply: FastifyReply, { status, body, retryAfterMs }: Answer): void {
  reply.code(status).header("x-request-id", reply.request.id);
  if (status >= 400) {
    if (retryAfterMs !== undefined)
      reply.header("retry-after", String(Math.max(1, Math.ceil(retryAfterMs / 1000))));
    if (status === 401) reply.header("www-authenticate", 'Bearer realm="holdfast"');
    reply.send(withRequestId(body, reply.request.id));
  } else if (body === null) reply.header("content-type", "application/json; charset=utf-8").send("null");
  else reply.send(body);
}

/** A job is a lock: what only locks have is done there. */
const elsewhere = (method: string, path: string): string =>
  method === "DELETE" && /^\/jobs\/[^/]+$/.test(path)
    ? ` To end its lease by force: DELETE ${path.replace("/jobs/", "/locks/").slice(0, 80)} with a reason.`
    : "";

/** Unknown paths, wrong methods, and everything that went wrong on the way. */
function answerTheRest(
  app: FastifyInstance,
  table: readonly Route[],
  { gate, metrics, options }: Registering,
): void {
  const patterns = table.map(({ method, path }) => ({
    method,
    pattern: new RegExp(`^${path.replace(/[.]/g, "\\.").replace(/\{\w+\}/g, "[^/]+")}$`),
  }));
  const say = (request: FastifyRequest, reply: FastifyReply, answer: Answer): void =>
    send(reply, isNodeRequest(request) ? inNodeWords(answer) : answer);
  const answerUnknown = (request: FastifyRequest, reply: FastifyReply): unknown => {
    reply.header("x-request-id", request.id);
    if (applyCors(request, reply, options.corsOrigins) && request.method === "OPTIONS")
      return reply.code(204).send();
    const path = request.url.split("?")[0] ?? "";
    const allowed = patterns.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
    if (path === "/" && request.method === "GET") return reply.redirect("/docs");
    if (allowed.length === 0)
      return say(
        request,
        reply,
        problem(
          "not_found",
          `There is no ${path.slice(0, 80)} here. GET /docs shows what there is. A / within a name is written %2F.`,
        ),
      );
    reply.header("allow", allowed.join(", "));
    return say(
      request,
      reply,
      problem(
        "method_not_allowed",
        `${path.slice(0, 80)} takes ${allowed.join(" or ")}, not ${request.method}.${elsewhere(request.method, path)}`,
      ),
    );
  };
  const heldBack = new HeldBack();
  app.setNotFoundHandler(answerUnknown);
  app.setErrorHandler((error: FastifyError, request, reply) => {
    const { routeId } = request.routeOptions.config as { routeId?: RouteId };
    // That nothing is there matters more than what is wrong with the body.
    if (request.is404) return answerUnknown(request, reply);
    const plain = answerTo(error, request);
    const answer = isNodeRequest(request) ? inNodeWords(plain) : plain;
    if (request.gateContext !== null) leaveWork(gate, request.gateContext);
    if (routeId !== undefined) metrics.record(routeId, answer.status, 0);
    // Fastify would close the connection on a caller that is still sending, and with it on the reply. Node drops the rest.
    if (answer.status === 413 && !gate.isStopping) reply.removeHeader("connection");
    if (error instanceof Busy) heldBack.add(() => send(reply, answer));
    else send(reply, answer);
  });
}
