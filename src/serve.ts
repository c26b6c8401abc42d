/** Wiring: configuration → store → service → face, the start's one block of text, and a clean stop. */
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Logger } from "pino";
import { type Config, ConfigError, isLoopback } from "./config.js";
import { openStore } from "./engines/open.js";
import { Instants } from "./faces/http/instants.js";
import { Presenter } from "./faces/http/present.js";
import { type HttpFace, httpFace } from "./faces/http/server.js";
import { makeBearer } from "./service/bearer.js";
import { Leases } from "./service/leases.js";
import { type StaticToken, Tokens } from "./service/tokens.js";
import { systemClocks } from "./store/clock.js";
import type { Store } from "./store/store.js";
import { wireLimitsDefault } from "./wire/fields.js";

/** How long a stop may take before open connections are cut. */
const stopMaxMs = 8_000;
/** How long a ticket keeps its place in line without a connection. */
const ticketMs = 10_000;

export interface Running {
  readonly url: string;
  readonly store: Store;
  /** The operator token, if this start made it. */
  readonly newToken: string | null;
  readonly tokenFile: string | null;
  stop(): Promise<void>;
}

export async function serve(config: Config, version: string, logger: Logger): Promise<Running> {
  const operator = operatorToken(config);
  const store = await openStore(config.store, {
    feedEventsMax: config.feedEventsMax,
    feedAgeMaxMs: config.feedAgeMaxMs,
    onTrouble: (what) => (what === null ? logger.info("the store works again") : logger.error(what)),
  });
  const stopping = new AbortController();
  const report = (what: string, error: unknown): void => logger.warn({ err: error }, what);
  const leases = new Leases(store, config.policy, queueLimits(config), report);
  try {
    const tokens = new Tokens(store, config.policy, [...config.tokens, ...operator.tokens]);
    await tokens.start(stopping.signal, report);
    leases.start();
    const face = makeFace(config, version, logger, leases, tokens);
    await face.app.listen({ host: config.host, port: config.port, backlog: 4096 });
    const stop = async (): Promise<void> => {
      stopping.abort();
      await stopFace(face);
      await store.close();
    };
    return { url: urlOf(config, face), store, newToken: operator.made, tokenFile: operator.file, stop };
  } catch (error) {
    stopping.abort();
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

function makeFace(config: Config, version: string, logger: Logger, leases: Leases, tokens: Tokens): HttpFace {
  const present = new Presenter(new Instants(systemClocks, () => leases.store.now()));
  const limits = { ...wireLimitsDefault, ttlSecondsMax: Math.floor(config.policy.ttlMaxMs / 1000) };
  return httpFace(
    { leases, tokens, present, limits, version },
    {
      gate: config.gate,
      streams: { streamsMax: config.streamsMax, streamsPerPrincipalMax: Math.ceil(config.streamsMax / 2) },
      connectionsMax: config.connectionsMax,
      corsOrigins: config.corsOrigins,
      hosts: isLoopback(config.host) ? ["127.0.0.1", "localhost", "[::1]", config.host.toLowerCase()] : null,
      trustProxy: config.trustProxy,
      tls:
        config.tlsCert === null || config.tlsKey === null
          ? null
          : { cert: read(config.tlsCert), key: read(config.tlsKey) },
      scratchDir: existsSync(config.dataDir) ? config.dataDir : tmpdir(),
      logger,
    },
  );
}

function read(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch {
    throw new ConfigError(`the TLS file ${path} cannot be read`);
  }
}

/**
 * The operator's token: from the configuration, or made at the first start when nothing else lets anybody in.
 * Beyond loopback a server must have been given its tokens.
 */
function operatorToken(config: Config): { tokens: StaticToken[]; made: string | null; file: string | null } {
  const asStatic = (secret: string): StaticToken => ({
    name: "operator",
    secret,
    role: "operator",
    reentrant: false,
  });
  if (config.adminToken !== null) return { tokens: [asStatic(config.adminToken)], made: null, file: null };
  if (!isLoopback(config.host) && config.tokens.length === 0)
    throw new ConfigError(
      `${config.host} is reachable by others, and no token is configured: set HOLDFAST_ADMIN_TOKEN or HOLDFAST_TOKENS, or use --host 127.0.0.1`,
    );
  if (config.tokens.length > 0) return { tokens: [], made: null, file: null };
  const file = operatorTokenFile(config.dataDir);
  if (existsSync(file)) return { tokens: [asStatic(readFileSync(file, "utf8").trim())], made: null, file };
  const { token } = makeBearer();
  mkdirSync(config.dataDir, { recursive: true, mode: 0o700 });
  writeFileSync(file, `${token}\n`, { mode: 0o600 });
  chmodSync(file, 0o600);
  return { tokens: [asStatic(token)], made: token, file };
}

export const operatorTokenFile = (dataDir: string): string => join(dataDir, "operator-token");

function urlOf(config: Config, face: HttpFace): string {
  const { port } = face.app.server.address() as AddressInfo;
  const host = config.host.includes(":") ? `[${config.host}]` : config.host;
  return `${config.tlsCert === null ? "http" : "https"}://${host}:${port}`;
}

/** Not ready at once; waiters and streams are told to come back; what is in work is finished; then it closes. */
async function stopFace(face: HttpFace): Promise<void> {
  face.stopping();
  const sweep = setInterval(() => face.app.server.closeIdleConnections(), 50);
  const cut = setTimeout(() => face.app.server.closeAllConnections(), stopMaxMs);
  await face.close();
  clearInterval(sweep);
  clearTimeout(cut);
}
