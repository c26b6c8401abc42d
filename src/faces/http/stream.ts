/** Watching by server-sent events: a snapshot, then changes, resumable by `Last-Event-ID`. */
import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { type Identity, mayTouch } from "../../service/identity.js";
import { watch } from "../../service/watch.js";
import type { WatchQuery } from "../../wire/locks.js";
import { refuse } from "./answer.js";
import { type Call, type Handler, pathName } from "./call.js";
import { onDeparture } from "./departure.js";
import { frame } from "./frames.js";

/** Shows proxies and clients that the stream lives. */
const heartbeatMs = 15_000;
/** What clients are told to wait before they connect again. */
const reconnectMs = 1000;
/** How long an ended stream's last words may take. Revocation is in force within a second. */
const goodbyeMs = 1000;

export interface StreamLimits {
  readonly streamsMax: number;
  readonly streamsPerPrincipalMax: number;
}

/** Open streams, so that they can be counted, bounded, and ended when nobody is served here any more. */
export class Streams {
  readonly #perPrincipal = new Map<string, number>();
  readonly #open = new Set<AbortController>();
  constructor(readonly limits: StreamLimits) {}

  get size(): number {
    return this.#open.size;
  }

  open(identity: Identity): AbortController {
    const who = `${identity.space}/${identity.principal}`;
    const own = this.#perPrincipal.get(who) ?? 0;
    if (this.size >= this.limits.streamsMax || own >= this.limits.streamsPerPrincipalMax)
      return refuse(
        "unavailable",
        "Too many streams are open. Close some, or watch a prefix in one stream.",
        { retryAfterMs: 1000 },
      );
    const controller = new AbortController();
    this.#open.add(controller);
    this.#perPrincipal.set(who, own + 1);
    controller.signal.addEventListener("abort", () => {
      this.#open.delete(controller);
      const left = (this.#perPrincipal.get(who) ?? 1) - 1;
      if (left === 0) this.#perPrincipal.delete(who);
      else this.#perPrincipal.set(who, left);
    });
    return controller;
  }

  /** Ends them all; clients connect again by themselves, elsewhere or later. */
  close(): void {
    for (const controller of [...this.#open]) controller.abort("stopping");
  }
}

export const watchLock =
  (streams: Streams): Handler =>
  (call) =>
    stream(call, streams, pathName(call, "read"), "");

export const watchLocks =
  (streams: Streams): Handler =>
  (call) =>
    stream(call, streams, null, ((call.query as WatchQuery).prefix ?? "").normalize("NFC"));

async function stream(call: Call, streams: Streams, name: string | null, prefix: string): Promise<null> {
  const { identity, request, reply } = call;
  const { leases, present } = call.desk;
  leases.store.facts.moved?.throwIfAborted();
  const ended = streams.open(identity);
  const end = (): void => ended.abort();
  identity.revoked.addEventListener("abort", end, { once: true, signal: ended.signal });
  reply.hijack();
  const { raw } = reply;
  onDeparture(reply, end);
  raw.writeHead(200, {
    "x-request-id": request.id,
    ...corsOf(reply.getHeaders()),
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
    "x-accel-buffering": "no",
  });
  raw.write(`retry: ${reconnectMs}\n\n`);
  // Who has not read what was sent before needs no sign of life.
  const heartbeat = setInterval(() => raw.writableNeedDrain || raw.write(": still here\n\n"), heartbeatMs);
  const forget = onExpiry(identity, () => leases.store.now(), end);
  const lastId = request.headers["last-event-id"];
  const after = typeof lastId === "string" && lastId !== "" ? lastId : undefined;
  const accept = (candidate: string): boolean => mayTouch(identity, candidate);
  try {
    for await (const watched of watch(
      leases,
      { space: call.space, name, prefix, accept, after },
      ended.signal,
    )) {
      if (ended.signal.aborted) break;
      if (!raw.write(frame(watched, present, leases.store.now())) && !ended.signal.aborted)
        await once(raw, "drain", { signal: ended.signal }).catch(() => undefined);
    }
  } catch (error) {
    if (!ended.signal.aborted) leases.report("telling streams of changes", error);
  } finally {
    clearInterval(heartbeat);
    forget();
    sayGoodbye(raw, ended);
  }
  return null;
}

/** The headers that a hijacked reply would otherwise lose. */
function corsOf(headers: Record<string, unknown>): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers))
    if (typeof value === "string" && (name === "vary" || name.startsWith("access-control-")))
      kept[name] = value;
  return kept;
}

/** A reader that takes nothing would keep its connection open for as long as it likes: the end is not waited for. */
function sayGoodbye(raw: ServerResponse, ended: AbortController): void {
  if (!raw.writableEnded)
    raw.end(ended.signal.reason === "stopping" ? 'event: reconnect\ndata: {"event":"reconnect"}\n\n' : "");
  if (!raw.closed) {
    const cut = setTimeout(() => raw.destroy(), goodbyeMs).unref();
    raw.once("close", () => clearTimeout(cut));
  }
  ended.abort();
}

function onExpiry(identity: Identity, now: () => number, end: () => void): () => void {
  const { expiresAt } = identity;
  if (expiresAt === null) return () => undefined;
  let timer: NodeJS.Timeout | undefined;
  const look = (): void => {
    // Longer than a timer can run: such a stream is cut and resumed by its client long before.
    const left = Math.min(expiresAt - now() + 1, 2 ** 31 - 1);
    if (left <= 0) end();
    else timer = setTimeout(look, left);
  };
  look();
  return () => clearTimeout(timer);
}
