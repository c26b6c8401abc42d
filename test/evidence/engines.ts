// How each engine's server is started, copied and brought back: a table. Nothing else of the evidence knows an
// engine; another one joins by a row.
import { join } from "node:path";
import { adminToken, type Server, type ServerOptions, startServer, temporaryDir } from "../server.js";
import { holdfast } from "../system-program.js";

export interface Engine {
  readonly name: string;
  /** A server on data of its own, new unless `dataDir` says otherwise. */
  readonly start: (options: ServerOptions) => Promise<Server>;
  /** Ends what keeps the data, in an orderly way, and starts it again at the same address. */
  readonly bounce: (server: Server) => Promise<Server>;
  /** Copies the data of a running server into a new file. */
  readonly backUp: (server: Server, file: string) => Promise<void>;
  /** Stops the server and starts another at the same address, on what the file holds. */
  readonly restore: (server: Server, file: string) => Promise<Server>;
}

/** Workers that the server knows: enough for two processes with four of their own each. */
export const principals = Array.from({ length: 8 }, (_, nth) => ({
  name: `worker-${nth}`,
  bearer: `secret-of-worker-${nth}`,
}));
export const operator = { name: "operator", bearer: adminToken };

async function run(args: readonly string[], env: Record<string, string> = {}): Promise<void> {
  const ended = await holdfast(args, { env });
  if (ended.code !== 0) throw new Error(`holdfast ${args[0]} ended with ${ended.code}: ${ended.text}`);
}

const sqlite: Engine = {
  name: "sqlite",
  start: (options) =>
    startServer({
      tokens: principals.map(({ name, bearer }) => `${name}:${bearer}`).join(","),
      ...options,
      env: { HOLDFAST_RATE_LIMIT: "off", ...options.env },
    }),
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
};

export const engines: readonly Engine[] = [sqlite];
