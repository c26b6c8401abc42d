// How each engine's servers are started, copied and brought back, and what it promises: a table. Nothing else of the
// evidence knows an engine; another one joins by a row.
import { join } from "node:path";
import type { Terms } from "../../src/verify/history.js";
import type { Load } from "../../src/verify/http/pace.js";
import { type Server, type ServerOptions, startServer, temporaryDir } from "../server.js";
import { holdfast } from "../system-program.js";
import type { Database } from "./database.js";
import { etcd } from "./etcd-engine.js";
import { git, gitLocal } from "./git-engines.js";
import { noDatabase } from "./no-database.js";
import { postgres } from "./postgres-engine.js";
import { operator, tokens } from "./principals.js";
import type { PushProxy } from "./push-proxy.js";

export interface Engine {
  readonly name: string;
  /** A server on data of its own, new unless `dataDir` says otherwise. */
  readonly start: (options: ServerOptions) => Promise<Server>;
  /** Further ones that callers can ask, on the data of the first; the first outlives them. */
  readonly more: readonly ((first: Server, options: ServerOptions) => Promise<Server>)[];
  /** Ends what keeps the data, in an orderly way, and starts it again at the same address. */
  readonly bounce: (server: Server) => Promise<Server>;
  /** Copies the data of a running server into a new file. */
  readonly backUp: (server: Server, file: string) => Promise<void>;
  /** Stops the server and starts another at the same address, on what the file holds. */
  readonly restore: (server: Server, file: string) => Promise<Server>;
  /** What its servers write through to where the data is; undefined: nothing lies in between. */
  readonly pushesOf?: (first: Server) => PushProxy;
  /** What the servers share their data in; undefined: it is their own. */
  readonly databaseOf?: (first: Server) => Database;
  /** Faults and sections of the evidence that it cannot be put to, and why. */
  readonly inapplicable: Readonly<Record<string, string>>;
  /** The workloads that it can do; undefined: all. */
  readonly workloads?: readonly string[];
  /** Where it promises less than a server with a store of its own. */
  readonly terms?: Terms;
  /** How hard each process that calls may press it; undefined: as hard as it can. */
  readonly pace?: Load & { readonly crewShare: number };
  /** Which share of what a workload reaches on a fast engine it must reach. */
  readonly share: number;
  /** How many times as long as a fast engine's its cells last: where calls take long, little happens in a while. */
  readonly stretch: number;
  /** How far a wall clock may be off, in ms. */
  readonly wallClockMaxMs: number;
}

async function run(args: readonly string[], env: Record<string, string> = {}): Promise<void> {
  const ended = await holdfast(args, { env });
  if (ended.code !== 0) throw new Error(`holdfast ${args[0]} ended with ${ended.code}: ${ended.text}`);
}

/** As users have them, but for how much one caller may ask. */
const realLimits = { HOLDFAST_RATE_LIMIT: "off", HOLDFAST_OVERLOAD_MS: undefined };

export const sqlite: Engine = {
  name: "sqlite",
  start: (options) => startServer({ tokens, ...options, env: { ...realLimits, ...options.env } }),
  more: [],
  // It keeps its data in the server's own process.
  bounce: async (server) => {
    await server.stop();
    return server.restart();
  },
  backUp: ({ url }, file) => run(["backup", file], { HOLDFAST_URL: url, HOLDFAST_TOKEN: operator.bearer }),
  restore: async (server, file) => {
    await server.stop();
    const dataDir = join(temporaryDir("holdfast-restored-"), "data");
    await run(["restore", file, "--data", dataDir]);
    return server.restart({ dataDir, cwd: "/" });
  },
  inapplicable: {
    "lost-push": "it writes in its own process",
    ...noDatabase,
    "git-races": "its server decides alone",
  },
  share: 1,
  stretch: 1,
  wallClockMaxMs: 3_600_000,
};

export const engines: readonly Engine[] = [sqlite, postgres, etcd, git, gitLocal];
