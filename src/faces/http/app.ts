/** The server underneath: its bounds, its request ids, and how a body becomes a value. */
import { isUtf8 } from "node:buffer";
import { randomBytes } from "node:crypto";
import type { ServerOptions } from "node:https";
import type { Socket } from "node:net";
import fastify, { type FastifyInstance, LogController } from "fastify";
import type { Logger } from "pino";
import { problem, Refused } from "./answer.js";
import { bodyMax } from "./failures.js";
import { answerUnreadable } from "./unreadable.js";
import { hasHalfCharacter, isOtherCharset } from "./validation.js";

/** Bytes of the request line and headers together. */
const headerMax = 16_384;
/** Milliseconds in which a request's headers, and all of it, must have arrived. */
const headersMs = 10_000;
const requestMs = 30_000;
const keepAliveMs = 75_000;
/** How often those two are looked at: Node's 30 s would let a slow sender stay four times as long. */
const timeoutCheckMs = 2_000;

interface AppOptions {
  readonly trustProxy: boolean;
  readonly tls: ServerOptions | null;
  readonly logger: Logger;
}

/**
 * Clients connect ahead of need. Node does not count such a connection as idle, so at a stop it would be waited
 * for; what is returned closes those that never said a word.
 */
export function followUnused(app: FastifyInstance): () => void {
  const open = new Set<Socket>();
  app.server.on("connection", (socket: Socket) => {
    open.add(socket);
    socket.once("close", () => open.delete(socket));
  });
  return () => {
    for (const socket of open) if (socket.bytesRead === 0) socket.destroy();
  };
}

export function makeApp(options: AppOptions): FastifyInstance {
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
