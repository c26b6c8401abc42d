/**
 * Following changes: a stream of server-sent events that goes on over breaks. Each connection begins after the last
 * event that was heard, so nothing is missed or told twice; where that is no longer possible, `reset` says so.
 */
import { sleep } from "./durations.js";
import { HoldfastError, isTransient } from "./errors.js";
import { segment } from "./path.js";
import type { WatchEvent } from "./replies.js";
import { camelKeys, pauseMs, type Transport } from "./transport.js";

export interface WatchOptions {
  /** One lock. */
  readonly name?: string | undefined;
  /** All locks whose names begin with this; every one if left out. */
  readonly prefix?: string | undefined;
  /** Ends the stream; the iterator then returns. */
  readonly signal?: AbortSignal | undefined;
}

/** A silent stream is dead: the server sends a comment every 15 s. */
const silenceMaxMs = 40_000;

interface Message {
  readonly event: string;
  readonly id: string | null;
  readonly data: string;
}

/** Until the server was heard, trouble is repeated as often as with any call; from then on until the signal says stop. */
export async function* watch(
  transport: Transport,
  options: WatchOptions = {},
): AsyncGenerator<WatchEvent, void, undefined> {
  let lastId: string | null = null;
  let hasTold = false;
  let failures = 0;
  const isOver = (): boolean => options.signal?.aborted === true;
  while (!isOver()) {
    // A snapshot that broke off begins anew: what was told of it no longer counts.
    let beginsAnew = hasTold && lastId === null;
    let trouble: HoldfastError | null = null;
    try {
      for await (const message of connection(transport, options, lastId)) {
        failures = 0;
        if (message.event === "reconnect") break;
        if (beginsAnew) yield { event: "reset", observedAt: new Date() };
        beginsAnew = false;
        hasTold = true;
        if (message.id !== null) lastId = message.id;
        yield camelKeys(JSON.parse(message.data)) as WatchEvent;
        if (isOver()) return;
      }
    } catch (error) {
      if (isOver()) return;
      if (!isTransient(error) || (!hasTold && failures >= transport.options.retries)) throw error;
      trouble = error;
      failures++;
    }
    // Also after an orderly end: a server that stops tells everybody at the same moment.
    await sleep(pauseMs(Math.max(failures, 1), trouble), options.signal).catch(() => {});
  }
}

async function* connection(
  transport: Transport,
  { name, prefix, signal }: WatchOptions,
  lastId: string | null,
): AsyncGenerator<Message, void, undefined> {
  const cut = new AbortController();
  const stop = (): void => cut.abort(new Error("the stream fell silent"));
  signal?.addEventListener("abort", stop, { once: true });
  let silence = setTimeout(stop, silenceMaxMs);
  try {
    const response = await transport.open(
      {
        method: "GET",
        path: name === undefined ? "/watch" : `/locks/${segment(name)}/watch`,
        query: name === undefined ? { prefix } : {},
        headers: { accept: "text/event-stream", ...(lastId === null ? {} : { "last-event-id": lastId }) },
      },
      cut.signal,
    );
    let text = "";
    for await (const chunk of chunksOf(response)) {
      clearTimeout(silence);
      silence = setTimeout(stop, silenceMaxMs);
      text += chunk;
      const blocks = text.split("\n\n");
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const message = messageOf(block);
        if (message !== null) yield message;
      }
    }
  } catch (error) {
    throw error instanceof HoldfastError ? error : transport.unreachable(error);
  } finally {
    clearTimeout(silence);
    signal?.removeEventListener("abort", stop);
    cut.abort();
  }
}

async function* chunksOf(response: Response): AsyncGenerator<string, void, undefined> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  for (;;) {
    const read = await reader?.read();
    if (read === undefined || read.done) return;
    yield decoder.decode(read.value, { stream: true });
  }
}

/** Null for a comment, or an event without data. */
function messageOf(block: string): Message | null {
  let event = "message";
  let id: string | null = null;
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("id:")) id = line.slice(3).trim();
    else if (line.startsWith("data:")) data += line.slice(5).trim();
  }
  return data === "" ? null : { event, id, data };
}
