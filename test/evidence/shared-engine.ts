// What engines have in common whose servers share a database: two servers, each with wires of its own to a database that ends with
// the first of them.
import type { Terms } from "../../src/verify/history.js";
import { type Server, type ServerOptions, startServer } from "../server.js";
import type { Database } from "./database.js";
import type { Engine } from "./engines.js";
import { tokens } from "./principals.js";

/** A new database, and the store's URL for each of so many servers. */
export type Found = (servers: number) => Promise<{
  readonly database: Database;
  readonly stores: readonly string[];
}>;

interface Place {
  readonly database: Database;
  readonly stores: readonly string[];
}

const serverCount = 2;
/** By the data directory of the first server, where it keeps nothing but what names it. */
const places = new Map<string, Place>();

const serve = (store: string, options: ServerOptions): Promise<Server> =>
  startServer({
    tokens,
    ...options,
    env: {
      HOLDFAST_RATE_LIMIT: "off",
      HOLDFAST_OVERLOAD_MS: undefined,
      HOLDFAST_STORE: store,
      ...options.env,
    },
  });

/** The database ends with the first server, or with the one that took its place. */
function withDatabase(server: Server): Server {
  return {
    ...server,
    restart: async (changes) => withDatabase(await server.restart(changes)),
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]();
      const place = places.get(server.dataDir);
      places.delete(server.dataDir);
      await place?.database[Symbol.asyncDispose]();
    },
  };
}

function placeOf({ dataDir }: Server): Place {
  const place = places.get(dataDir);
  if (place === undefined) throw new Error(`no database of ${dataDir}`);
  return place;
}

const noCopies = async (): Promise<never> => {
  throw new Error("a copy of the data is the database's to make");
};

/** What `docs/reliability.md` says: a dead holder's name within its TTL and 1.5 s, of which one second is everybody's. */
const terms: Terms = { lateMs: 500, keepsTurns: true };

export const sharedEngine = (
  name: string,
  found: Found,
  more: Pick<Engine, "inapplicable"> & Partial<Engine>,
): Engine => ({
  name,
  start: async (options) => {
    const { database, stores } = await found(serverCount);
    try {
      const server = await serve(stores[0] ?? "", options);
      places.set(server.dataDir, { database, stores });
      return withDatabase(server);
    } catch (error) {
      await database[Symbol.asyncDispose]();
      throw error;
    }
  },
  more: Array.from(
    { length: serverCount - 1 },
    (_, nth) => (first: Server, options: ServerOptions) =>
      serve(placeOf(first).stores[nth + 1] ?? "", options),
  ),
  bounce: async (server) => {
    await server.stop();
    return server.restart();
  },
  backUp: noCopies,
  restore: noCopies,
  databaseOf: (first) => placeOf(first).database,
  terms,
  share: 0.25,
  stretch: 1,
  wallClockMaxMs: 3_600_000,
  ...more,
  inapplicable: {
    "disk-full": "its data is the database's, and so is the disk",
    fsync: "it is the database that syncs",
    restore: "a copy of the data is the database's to make and to bring back",
    "lost-push": "it writes to the database itself",
    "git-races": "it is no repository",
    overload: "how much it can do is the database's part; what it refuses beyond is the same code",
    ...more.inapplicable,
  },
});
