/** Following a stream of server-sent events, over breaks: each connection goes on after the last event that was heard. */
import type { IncomingMessage } from "node:http";
import type { Seen } from "../history.js";
import { monotonicMs, sleep } from "./clock.js";
import { type Exchange, replyTo, retryAfter } from "./exchange.js";

/** A silent stream is dead: the service sends a comment every 15 s. */
const silenceMaxMs = 40_000;
const reconnectMs = 100;

const events = new Set<string>(["snapshot", "synced", "acquired", "renewed", "released", "expired", "reset"]);
const isEvent = (event: string | null): event is Seen["event"] => event !== null && events.has(event);

export interface Following {
  readonly stream: string;
  /** What the names begin with that it follows. */
  readonly prefix: string;
  readonly bearer: string;
  /** Where the last connection stopped, and where this one does. */
  lastId: string | null;
  readonly saw: (seen: Seen) => void;
  /** Resolves when a connection may be asked for. */
  readonly begin: (signal: AbortSignal) => Promise<void>;
  /** One was refused because calls were too many, and for how long the service wants to be left alone. */
  readonly hushed: (ms: number) => void;
}

/** Until aborted. Never rejects. */
export async function follow(exchange: Exchange, following: Following, signal: AbortSignal): Promise<void> {
  for (let failures = 0; !signal.aborted; ) {
    await following.begin(signal);
    if (signal.aborted) return;
    const pauseMs = await connection(exchange, following, signal).catch(() => null);
    failures = pauseMs === null ? failures + 1 : 0;
    await sleep(Math.max(pauseMs ?? 0, reconnectMs * Math.max(1, failures)), signal);
  }
}

/** One connection; returns how long the service wants to be left alone. */
async function connection(exchange: Exchange, following: Following, signal: AbortSignal): Promise<number> {
  const { lastId, bearer, prefix, stream, saw } = following;
  const path = `/watch?prefix=${encodeURIComponent(prefix)}`;
  const headers = lastId === null ? {} : { "last-event-id": lastId };
  const asked = monotonicMs();
  const sent = exchange.open(bearer, { method: "GET", path }, headers);
  const cut = (): void => {
    sent.destroy();
  };
  sent.setTimeout(silenceMaxMs, cut);
  signal.addEventListener("abort", cut, { once: true });
  try {
    const reply = await replyTo(sent);
    if (reply.statusCode !== 200) {
      reply.resume();
      const ms = retryAfter(reply, null);
      if (reply.statusCode === 429) following.hushed(ms);
      return ms;
    }
    saw({ stream, at: asked, event: "opened", id: lastId, name: prefix, token: 0 });
    try {
      await listen(reply, following, signal);
    } finally {
      saw({ stream, at: monotonicMs(), event: "closed", id: null, name: prefix, token: 0 });
    }
    return 0;
  } finally {
    signal.removeEventListener("abort", cut);
    sent.destroy();
  }
}

async function listen(reply: IncomingMessage, following: Following, signal: AbortSignal): Promise<void> {
  let text = "";
  for await (const chunk of reply.setEncoding("utf8")) {
    if (signal.aborted) return;
    text += chunk as string;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const seen = eventIn(text.slice(0, end), following.stream);
      text = text.slice(end + 2);
      if (seen === null) continue;
      if (seen.id !== null) following.lastId = seen.id;
      following.saw(seen);
    }
  }
}

/** Null for a comment, and for what is no news of a name. */
function eventIn(block: string, stream: string): Seen | null {
  const lines = block.split("\n");
  const field = (name: string): string | null =>
    lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? null;
  const event = field("event");
  if (!isEvent(event)) return null;
  const data = JSON.parse(field("data") ?? "{}") as { name?: string; fencing_token?: number };
  return {
    stream,
    at: monotonicMs(),
    event,
    id: field("id"),
    name: data.name ?? "",
    token: data.fencing_token ?? 0,
  };
}
