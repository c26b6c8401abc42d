/**
 * Following changes: a stream of server-sent events that goes on over breaks. Each connection begins after the last
 * event that was heard, so nothing is missed or told twice; where that is no longer possible, `reset` says so.
 */
import { onAbort } from "./aborting.js";
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
  /** Told why when the connection is broken and cannot be made again at once, and with null when it is there again. */
  readonly onConnection?: ((trouble: HoldfastError | null) => void) | undefined;
  /** Ends the stream; the iterator then returns. */
  readonly signal?: AbortSignal | undefined;
}

/** A silent stream is dead: the server sends a comment every 15 s. */
const silenceMaxMs = 40_000;

interface Message {
  readonly event: string;
  readonly id: string | null;
  readonly content: WatchEvent;
}

/** Until the server was heard, trouble is repeated as often as with any call; from then on until the signal says stop. */
export async function* watch(
  transport: Transport,
  options: WatchOptions = {},
): AsyncGenerator<WatchEvent, void, undefined> {
  let lastId: string | null = null;
  let hasTold = false;
  let failures = 0;
  let isBroken = false;
  const isOver = (): boolean => options.signal?.aborted === true;
  const tell = (trouble: HoldfastError | null): void => {
    const wasBroken = isBroken;
    isBroken = trouble !== null;
    if (wasBroken !== isBroken) options.onConnection?.(trouble);
  };
  while (!isOver()) {
    // A snapshot that broke off begins anew: what was told of it no longer counts.
    let beginsAnew = hasTold && lastId === null;
    let trouble: HoldfastError | null = null;
    try {
      for await (const message of connection(transport, options, lastId)) {
        if (message === null) {
          tell(null);
          continue;
        }
        failures = 0;
        if (message.event === "reconnect") break;
        if (beginsAnew) yield { event: "reset", observedAt: new Date() };
        beginsAnew = false;
        hasTold = true;
        if (message.id !== null) lastId = message.id;
        yield message.content;
        if (isOver()) return;
      }
    } catch (error) {
      if (isOver()) return;
      if (!isTransient(error) || (!hasTold && failures >= transport.options.retries)) throw error;
      trouble = error;
      failures++;
      tell(trouble);
    }
    // Also after an orderly end: a server that stops tells everybody at the same moment.
    await sleep(pauseMs(Math.max(failures, 1), trouble), options.signal).catch(() => {});
  }
}

/** One connection: null once it is made, then what comes. */
async function* connection(
  transport: Transport,
  { name, prefix, signal }: WatchOptions,
  lastId: string | null,
): AsyncGenerator<Message | null, void, undefined> {
  const cut = new AbortController();
  const stop = (): void => cut.abort(new Error("the stream fell silent"));
  const forget = onAbort(signal, stop);
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
    yield null;
    let text = "";
    for await (const chunk of chunksOf(response)) {
      clearTimeout(silence);
      silence = setTimeout(stop, silenceMaxMs);
      text += chunk;
      const blocks = text.split("\n\n");
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const { event, id, data } = fieldsOf(block);
        // A comment, or an event without data.
        if (data === "") continue;
        const content = contentOf(data);
        if (content === null) throw transport.notHoldfast(response, data);
        yield { event, id, content };
      }
    }
  } catch (error) {
    throw error instanceof HoldfastError ? error : transport.unreachable(error);
  } finally {
    clearTimeout(silence);
    forget();
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

function fieldsOf(block: string): { event: string; id: string | null; data: string } {
  let event = "message";
  let id: string | null = null;
  let data = "";
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("id:")) id = line.slice(3).trim();
    else if (line.startsWith("data:")) data += line.slice(5).trim();
  }
  return { event, id, data };
}

/** Null: it is none that Holdfast writes. */
function contentOf(data: string): WatchEvent | null {
  try {
    const content = camelKeys(JSON.parse(data));
    return "event" in Object(content) ? (content as WatchEvent) : null;
  } catch {
    return null;
  }
}
