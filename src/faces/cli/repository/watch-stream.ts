/** Following a repository's locks as a server's stream would tell of them. */
import { HoldfastError } from "../../../client/errors.js";
import { type Watched, type WatchedLeases, watch } from "../../../service/watch.js";
import { parsedName } from "../../http/call.js";
import { frame } from "../../http/frames.js";
import { failureAnswer, type Reader } from "./repository-fetch.js";
import { type Request, type Routes, space } from "./routes.js";

/** Shows the reader that the stream lives, as a server does. */
const heartbeatMs = 15_000;
const heartbeat = ": still here\n\n";

export function streamOf(
  { leases, present }: Routes,
  { path, query }: Request,
  after: string | undefined,
  signal: AbortSignal = new AbortController().signal,
): Reader {
  const watched: WatchedLeases = {
    store: leases.store,
    inspect: (inSpace, name) => leases.inspect(inSpace, name),
    list: async ({ prefix, accept }) => {
      const holdings = await leases.list(space, prefix);
      return { holdings: holdings.filter(({ lock }) => accept(lock)), next: null };
    },
  };
  const name = path[0] === "locks" ? parsedName(path[1] ?? "") : null;
  const prefix = (query.get("prefix") ?? "").normalize("NFC");
  const events = watch(watched, { space, name, prefix, accept: () => true, after }, signal);
  let next: Promise<IteratorResult<Watched>> | null = null;
  const encoder = new TextEncoder();
  return {
    read: async () => {
      next ??= events.next();
      const said = await orHeartbeat(next).catch((error: unknown) => {
        next = null;
        throw signal.aborted ? signal.reason : failureOf(error);
      });
      if (said === null) return { done: false, value: encoder.encode(heartbeat) };
      next = null;
      if (said.done === true) return { done: true, value: undefined };
      return { done: false, value: encoder.encode(frame(said.value, present, leases.store.now())) };
    },
  };
}

/** Null: nothing has happened for a while. */
function orHeartbeat<Value>(next: Promise<Value>): Promise<Value | null> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(null), heartbeatMs);
    void next.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** The stream has no status any more in which it could be told. */
function failureOf(error: unknown): Error {
  const { status, body } = failureAnswer(error);
  const { code, details } = body as { code: HoldfastError["code"]; details: string };
  return new HoldfastError(details, { code, status, requestId: null, fields: {} });
}
