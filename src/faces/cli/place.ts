/**
 * What a client works on: a server, or the locks in a git repository. Plain values, so that another process can be told of
 * it and work on the same.
 */
import type { TransportOptions } from "../../client/transport.js";
import { smallFetch } from "./small-fetch.js";

export interface ServerPlace {
  readonly kind: "server";
  readonly url: string;
  readonly token: string | undefined;
}

export interface RepositoryPlace {
  readonly kind: "repository";
  /** Where the repository is found from. */
  readonly cwd: string;
  /** `local`, or a remote's name. */
  readonly authority: string;
  /** Where pushes to that remote go, if not simply to where it is fetched from; else null. */
  readonly address: string | null;
  readonly commonDir: string;
  /** Where this worktree keeps what is its own. */
  readonly stateDir: string;
  /** A short hash of the calling session, for people who look at a record. */
  readonly session: string | null;
  /** null: the engine's default. */
  readonly skewMs: number | null;
}

export type Place = ServerPlace | RepositoryPlace;

/** How a client gets there. */
export type Endpoint = Pick<TransportOptions, "url" | "token" | "fetch" | "timeoutMs" | "retries">;

/** What a client of a server does without being told otherwise. */
const attempts = { timeoutMs: 10_000, retries: 4 };
/** Git has its own patience, with a network as with other processes: its calls are seen to their end, once. */
const repositoryAttempts = { timeoutMs: 600_000, retries: 0 };
/** Nobody is asked at it: the answers are made in this process. */
const repositoryUrl = "http://repository.invalid";

export function endpointOf(place: Place): Endpoint {
  if (place.kind === "server") return { url: place.url, token: place.token, fetch: smallFetch, ...attempts };
  const load = async (): Promise<typeof globalThis.fetch> => {
    const [{ repositoryFetch }, { access }] = await Promise.all([
      import("./repository/repository-fetch.js"),
      import("./repository/access.js"),
    ]);
    return repositoryFetch(async () => (await access(place)).routes);
  };
  let loaded: ReturnType<typeof load> | null = null;
  return {
    url: repositoryUrl,
    token: undefined,
    fetch: async (...request) => {
      loaded ??= load();
      return (await loaded)(...request);
    },
    ...repositoryAttempts,
  };
}

/** For people. */
export const placeText = (place: Place): string =>
  place.kind === "server"
    ? place.url
    : place.authority === "local"
      ? `git refs in ${place.commonDir}`
      : `git remote ${place.authority} of ${place.commonDir}`;
