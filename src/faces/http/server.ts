/**
 * The HTTP face: registers exactly the routes of the wire's table, puts the gate before each, turns what handlers
 * give back into replies, and every failure into the one error body.
 */
import { isUtf8 } from "node:buffer";
import { randomBytes } from "node:crypto";
import type { ServerOptions } from "node:https";
import type { Socket } from "node:net";
import fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from "fastify";
import type { Logger } from "pino";
import type { Identity } from "../../service/identity.js";
import { openapi } from "../../wire/openapi.js";
import { type Route, type RouteId, routes } from "../../wire/routes.js";
import { type Answer, Busy, problem, Refused } from "./answer.js";
import type { Call, Desk, Handler } from "./call.js";
import { onDeparture } from "./departure.js";
import { answerTo, bodyMax } from "./failures.js";
import { Gate } from "./gate.js";
import type { GateLimits } from "./gate-limits.js";
import * as jobs from "./jobs.js";
import * as locks from "./locks.js";
import { Metrics } from "./metrics.js";
import * as operate from "./operate.js";
import { applyCors, checkHost } from "./origin.js";
import { Outbox } from "./outbox.js";
import * as sessions from "./sessions.js";
import { type StreamLimits, Streams, watchLock, watchLocks } from "./stream.js";
import * as tokens from "./tokens.js";
import { answerUnreadable } from "./unreadable.js";
import { checkOf, hasHalfCharacter, isOtherCharset } from "./validation.js";

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

/** Bytes of the request line and headers together. */
const headerMax = 16_384;
/** Milliseconds in which a request's headers, and all of it, must have arrived. */
const headersMs = 10_000;
const requestMs = 30_000;
const keepAliveMs = 75_000;
/** How long a refusal for lack of room is held back: bounds how often a caller without patience can ask. */
const busyMs = 200;
/** How often those two are looked at: Node's 30 s would let a slow sender stay four times as long. */
const timeoutCheckMs = 2_000;

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
  const metrics = new Metrics(desk.leases, streams, gate);
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
      streams.close();
      closeUnused();
    },
    close: async () => {
      gate.close();
      await app.close();
    },
  };
}

/**
 * Clients connect ahead of need. Node does not count such a connection as idle, so at a stop it would be waited
 * for; what is returned closes those that never said a word.
 */
function followUnused(app: FastifyInstance): () => void {
  const open = new Set<Socket>();
  app.server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
  return () => {
    for (const socket of open) if (socket.bytesRead === 0) socket.destroy();
  };
}

function makeApp(options: HttpOptions): FastifyInstance {
  const instance = randomBytes(4).toString("hex");
  let count = 0;
  const requestId = (): string => `req_${instance}${(++count).toString(36).padStart(6, "0")}`;
  const unreadable = answerUnreadable(requestId);
  // Without a Host header Node would answer by itself; checkHost says it in our words.
  const bounds = {
    maxHeaderSize: headerMax,
    headersTimeout: headersMs,
    connectionsCheckingInterval: timeoutCheckMs,
    requireHostHeader: false,
  };
  const app = fastify({
    loggerInstance: options.logger as never,
    // A child logger per request costs more than the few lines that are ever logged: they name the request themselves.
    childLoggerFactory: (logger: Logger) => logger,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: requestId,
    requestIdHeader: false,
    bodyLimit: bodyMax,
    trustProxy: options.trustProxy,
    forceCloseConnections: "idle",
    // The gate refuses by itself, with our body.
    return503OnClosing: false,
    keepAliveTimeout: keepAliveMs,
    requestTimeout: requestMs,
    routerOptions: {
      // A 256-byte name may arrive as 768 percent-encoded characters; longer ones get the error body, not a bare 414.
      maxParamLength: headerMax,
      onBadUrl: unreadable.badUrl,
    },
    clientErrorHandler: unreadable.clientError,
    ...(options.tls === null ? { http: bounds } : { https: { ...options.tls, ...bounds } }),
  } as never) as unknown as FastifyInstance;
  // An expectation that is not known may be ignored; Node would answer 417 by itself.
  app.server.on("checkExpectation", (request, response) => app.server.emit("request", request, response));
  app.server.on("connect", unreadable.connect);
  app.decorateRequest("gateContext", null);
  const parse = app.getDefaultJsonParser("error", "error");
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, bytes, done) => {
    if (isOtherCharset(request.headers["content-type"])) return done(notJson());
    // Decoding would turn broken bytes into one and the same character: two names would become one.
    if (!isUtf8(bytes as Buffer)) return done(notText("The body is not UTF-8."));
    const body = bytes.toString();
    if (body === "") done(null, {});
    else
      parse(request, body, (error, value) => {
        if (error === null && hasHalfCharacter(body, value))
          done(notText("A text in the body holds half a surrogate pair, which is no character."));
        else done(error, value);
      });
  });
  app.addContentTypeParser("*", { parseAs: "string" }, (_request, body, done) => {
    if (body === "") done(null, {});
    else done(notJson());
  });
  return app;
}

const notJson = (): Refused =>
  new Refused(
    problem(
      "unsupported_media_type",
      "Send the body as JSON in UTF-8, with the header Content-Type: application/json.",
    ),
  );

const notText = (details: string): Refused => new Refused(problem("invalid_input", details, { status: 400 }));

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
      const finish = (answer: Answer | null): void => {
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
    // A caller that closed its side is hung up on by Node before it says that the connection is closed.
    if (reply.raw.socket?.writable !== true) undelivered();
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
    reply.send({ ...(body as object), request_id: reply.request.id });
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
  const answerUnknown = (request: FastifyRequest, reply: FastifyReply): unknown => {
    reply.header("x-request-id", request.id);
    if (applyCors(request, reply, options.corsOrigins) && request.method === "OPTIONS")
      return reply.code(204).send();
    const path = request.url.split("?")[0] ?? "";
    const allowed = patterns.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
    if (path === "/" && request.method === "GET") return reply.redirect("/docs");
    if (allowed.length === 0)
      return send(
        reply,
        problem(
          "not_found",
          `There is no ${path.slice(0, 80)} here. GET /docs shows what there is. A / within a name is written %2F.`,
        ),
      );
    reply.header("allow", allowed.join(", "));
    return send(
      reply,
      problem(
        "method_not_allowed",
        `${path.slice(0, 80)} takes ${allowed.join(" or ")}, not ${request.method}.${elsewhere(request.method, path)}`,
      ),
    );
  };
  app.setNotFoundHandler(answerUnknown);
  app.setErrorHandler((error: FastifyError, request, reply) => {
    const { routeId } = request.routeOptions.config as { routeId?: RouteId };
    // That nothing is there matters more than what is wrong with the body.
    if (request.is404) return answerUnknown(request, reply);
    const answer = answerTo(error, request);
    if (request.gateContext !== null) leaveWork(gate, request.gateContext);
    if (routeId !== undefined) metrics.record(routeId, answer.status, 0);
    if (error instanceof Busy) setTimeout(send, busyMs, reply, answer);
    else send(reply, answer);
  });
}
