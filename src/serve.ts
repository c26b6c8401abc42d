/** Wiring: configuration → store → service → face, the start's one block of text, and a clean stop. */
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { type AddressInfo, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { createSecureContext } from "node:tls";
import type { Logger } from "pino";
import { type Config, ConfigError, isLoopback } from "./config.js";
import {
  announceUrl,
  forgetToken,
  keepToken,
  keptToken,
  operatorTokenFile,
  withdrawUrl,
} from "./data-dir.js";
import { findOf, openStore } from "./engines/open.js";
import { Instants } from "./faces/http/instants.js";
import { PageRoom } from "./faces/http/page-room.js";
import { Presenter } from "./faces/http/present.js";
import { type HttpFace, httpFace } from "./faces/http/server.js";
import { makeBearer } from "./service/bearer.js";
import { Leases } from "./service/leases.js";
import { Nodes } from "./service/nodes.js";
import { operatorName, type StaticToken, Tokens } from "./service/tokens.js";
import { systemClocks } from "./store/clock.js";
import type { Store } from "./store/store.js";
import { TroubleLog } from "./trouble-log.js";
import { wireLimitsDefault } from "./wire/fields.js";

/** How long a stop may take before open connections are cut. */
const stopMaxMs = 8_000;
/** How long callers are answered that the server stops before it no longer listens. */
const drainMs = 500;
/** How long a ticket keeps its place in line without a connection. */
const ticketMs = 10_000;

export interface Running {
  readonly url: string;
  readonly store: Store;
  /** The operator token, if this start made it. */
  readonly newToken: string | null;
  readonly tokenFile: string | null;
  /** How long nothing is granted yet after a restore, in ms. */
  readonly quietMs: number;
  stop(): Promise<void>;
}

export async function serve(config: Config, version: string, logger: Logger): Promise<Running> {
  const tls = tlsOf(config);
  refuseOpenDoor(config);
  const { isNew, isEmpty } = findOf(config.store);
  if (isNew) await refuseTakenPort(config);
  const { report } = new TroubleLog(logger);
  const store = await openStore(config.store, {
    feedEventsMax: config.feedEventsMax,
    feedAgeMaxMs: config.feedAgeMaxMs,
    onWarning: (what) => logger.warn(what),
    onFailure: report,
  });
  warnOf(config, isEmpty, logger);
  const leases = new Leases(store, config.policy, queueLimits(config), report);
  let operator: OperatorToken | null = null;
  try {
    // Only now that the data is ours: a start that is refused must not touch the token of the one that runs.
    operator = operatorToken(config, logger);
    if (operator.file !== null) warnOfOwnToken(store, operator.file, logger);
    const tokens = new Tokens(store, config.policy, [...config.tokens, ...operator.tokens]);
    await tokens.start(leases.stopping, report);
    refuseTwin(tokens);
    await leases.noticeRestore();
    await leases.start();
    const face = makeFace(config, version, logger, leases, tokens, tls);
    await face.app.listen({ host: config.host, port: config.port, backlog: 4096 });
    const url = urlOf(config, face);
    try {
      announceUrl(config.dataDir, url);
    } catch (error) {
      logger.warn({ err: error }, "commands will not find this server by its data directory");
    }
    const stop = async (): Promise<void> => {
      await stopFace(face);
      await leases.leave();
      withdrawUrl(config.dataDir, url);
      await store.close();
    };
    const { made: newToken, file: tokenFile } = operator;
    return { url, store, newToken, tokenFile, quietMs: leases.quietMs(), stop };
  } catch (error) {
    // Nobody has seen it: the next start makes and shows one.
    if (operator !== null && operator.made !== null) forgetToken(config.dataDir);
    leases.close();
    await store.close();
    throw error;
  }
}

const queueLimits = (config: Config) => ({
  waitersMax: config.waitersMax,
  waitersPerNameMax: config.waitersPerNameMax,
  // One caller may not take all places: half of them stay for the others. A raised limit is for one caller to use.
  waitersPerPrincipalMax: config.waitersMax > 10_000 ? config.waitersMax : Math.ceil(config.waitersMax / 2),
  ticketMs,
});

function makeFace(
  config: Config,
  version: string,
  logger: Logger,
  leases: Leases,
  tokens: Tokens,
  tls: Tls | null,
): HttpFace {
  const present = new Presenter(
    new Instants(systemClocks, () => leases.store.now(), leases.store.facts.offsetAt),
  );
  const limits = { ...wireLimitsDefault, ttlSecondsMax: Math.floor(config.policy.ttlMaxMs / 1000) };
  return httpFace(
    { leases, nodes: new Nodes(leases), tokens, present, limits, pages: new PageRoom(), version },
    {
      gate: config.gate,
      streams: { streamsMax: config.streamsMax, streamsPerPrincipalMax: Math.ceil(config.streamsMax / 2) },
      connectionsMax: config.connectionsMax,
      corsOrigins: config.corsOrigins,
      hosts: isLoopback(config.host) ? ["127.0.0.1", "localhost", "[::1]", config.host.toLowerCase()] : null,
      trustProxy: config.trustProxy,
      tls,
      scratchDir: existsSync(config.dataDir) ? config.dataDir : tmpdir(),
      logger,
    },
  );
}

interface Tls {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** Certificate and key, known to work together. */
function tlsOf({ tlsCert, tlsKey }: Config): Tls | null {
  if (tlsCert === null || tlsKey === null) return null;
  const tls = { cert: read(tlsCert), key: read(tlsKey) };
  try {
    createSecureContext(tls);
  } catch (error) {
    throw new ConfigError(
      `${tlsCert} and ${tlsKey} are not a certificate and its key in PEM: ${error instanceof Error ? error.message : error}`,
    );
  }
  return tls;
}

function read(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch {
    throw new ConfigError(`the TLS file ${path} cannot be read`);
  }
}

/** Beyond loopback a server must have been given its tokens. */
function refuseOpenDoor(config: Config): void {
  if (!isLoopback(config.host) && config.tokens.length === 0 && config.adminToken === null)
    throw new ConfigError(
      `${config.host} is reachable by others, and no token is configured: set HOLDFAST_ADMIN_TOKEN or HOLDFAST_TOKENS, or use --host 127.0.0.1`,
    );
}

/** A name is a principal, and belongs to one token. */
function refuseTwin(tokens: Tokens): void {
  const name = tokens.twin();
  if (name !== null)
    throw new ConfigError(
      `HOLDFAST_TOKENS names ${name}, and so does a token in the data: choose another name, or start without it and run: holdfast token revoke ${name}`,
    );
}

/** What works, but may not be what was meant. */
function warnOf(config: Config, isEmpty: boolean, logger: Logger): void {
  if (!isLoopback(config.host) && config.tlsCert === null)
    logger.warn(
      { host: config.host },
      "plain HTTP beyond loopback: tokens and leases can be read on the way; set --tls-cert and --tls-key, or let only a proxy that ends TLS reach this port",
    );
  if (isEmpty) logger.warn({ store: config.store }, "the data file was there and empty: it begins anew");
  const filesMax = openFilesMax();
  if (filesMax <= config.connectionsMax)
    logger.warn(
      { open_files: filesMax, connections_max: config.connectionsMax },
      "the limit of open files is not above HOLDFAST_CONNECTIONS_MAX: raise it (ulimit -n), or lower the setting",
    );
}

/** Other servers on the same data do not know it, and each would make another. */
function warnOfOwnToken(store: Store, file: string, logger: Logger): void {
  if (store.facts.order !== "cluster") return;
  logger.warn(
    { file },
    "HOLDFAST_ADMIN_TOKEN is not set, so this server made an operator token of its own: other servers on this store will answer 401 to it; set HOLDFAST_ADMIN_TOKEN to the same value on all",
  );
}

/** The process's limit where the system tells it, as Linux does. */
function openFilesMax(): number {
  try {
    const [, soft] = /^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return Number(soft ?? Number.POSITIVE_INFINITY);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** Asked before anything is made: a start that fails at its port leaves nothing behind. Else the lock is asked first. */
async function refuseTakenPort({ host, port }: Config): Promise<void> {
  const probe = createServer();
  probe.listen({ host, port });
  await once(probe, "listening");
  probe.close();
  await once(probe, "close");
}

interface OperatorToken {
  readonly tokens: readonly StaticToken[];
  /** The token, if this start made it. */
  readonly made: string | null;
  readonly file: string | null;
}

/** From the configuration, or made at the first start when nothing else lets anybody in. */
function operatorToken(config: Config, logger: Logger): OperatorToken {
  const asStatic = (secret: string): StaticToken[] => [
    { name: operatorName, secret, role: "operator", reentrant: false },
  ];
  if (config.adminToken !== null) return { tokens: asStatic(config.adminToken), made: null, file: null };
  const file = operatorTokenFile(config.dataDir);
  const kept = keptToken(config.dataDir);
  if (config.tokens.length > 0) {
    if (kept !== null)
      logger.warn({ file }, "HOLDFAST_TOKENS decides who gets in: the kept operator token is not valid");
    return { tokens: [], made: null, file: null };
  }
  if (kept !== null) return { tokens: asStatic(kept), made: null, file };
  const { token } = makeBearer();
  keepToken(config.dataDir, token);
  return { tokens: asStatic(token), made: token, file };
}

function urlOf(config: Config, face: HttpFace): string {
  const { port } = face.app.server.address() as AddressInfo;
  // "Every address" is none to connect to.
  const reachable = { "0.0.0.0": "127.0.0.1", "::": "::1" }[config.host] ?? config.host;
  const host = reachable.includes(":") ? `[${reachable}]` : reachable;
  return `${config.tlsCert === null ? "http" : "https"}://${host}:${port}`;
}

/** Not ready at once; waiters and streams are told to come back; what is in work is finished; then it closes. */
async function stopFace(face: HttpFace): Promise<void> {
  const { server } = face.app;
  face.stopping();
  const cut = setTimeout(() => server.closeAllConnections(), stopMaxMs);
  await leftAlone(server);
  const sweep = setInterval(() => server.closeIdleConnections(), 50);
  await face.close();
  clearInterval(sweep);
  clearTimeout(cut);
}

/** A moment in which whoever calls is told that the server stops, instead of being cut off; none if nobody is there. */
async function leftAlone(server: Server): Promise<void> {
  for (const deadline = performance.now() + drainMs; performance.now() < deadline; await delay(10)) {
    const connections = await new Promise<number>((resolve) =>
      server.getConnections((_error, count) => resolve(count)),
    );
    if (connections === 0) return;
  }
}
