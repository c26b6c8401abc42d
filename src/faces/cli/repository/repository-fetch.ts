/**
 * A `fetch` that answers in this process what a server would answer, from a git repository: the client and every command
 * over it need not know the difference. A call that has begun is seen to its end, whoever loses patience: it may already
 * have changed a ref. Only a wait is given up when its caller leaves.
 */
import { randomBytes } from "node:crypto";
import { StoreError } from "../../../store/store.js";
import { type Answer, problem, Refused } from "../../http/answer.js";
import { storeAnswer } from "../../http/failures.js";
import type { Request, Routes } from "./routes.js";

/** How often a change whose outcome is not known is asked for again, to learn it. */
const unknownMax = 3;

interface Init {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal;
}

/** What the client uses of a Response. */
interface Reply {
  readonly ok: boolean;
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  readonly body: { getReader(): Reader } | null;
  text(): Promise<string>;
  json(): Promise<unknown>;
}

export interface Reader {
  read(): Promise<{ done: boolean; value: Uint8Array | undefined }>;
}

/** `open` is called with the first request, and not again once it has succeeded. */
export function repositoryFetch(open: () => Promise<Routes>): typeof globalThis.fetch {
  const send = async (address: string, init: Init = {}): Promise<Reply> => {
    const request = requestOf(address, init);
    const { signal } = init;
    signal?.throwIfAborted();
    try {
      const routes = await open();
      if (request.path.at(-1) === "watch") {
        const { streamOf } = await import("./watch-stream.js");
        return streamReply(streamOf(routes, request, init.headers?.["last-event-id"], signal));
      }
      return replyOf(await answerOf(routes, request));
    } catch (error) {
      // The reason of whoever called it off, as `fetch` does.
      if (signal?.aborted === true && !(error instanceof Refused)) throw signal.reason;
      return replyOf(failureAnswer(error));
    }
  };
  return send as unknown as typeof globalThis.fetch;
}

/** A request id, or the nature of the call, makes a repeat harmless. */
async function answerOf(routes: Routes, request: Request): Promise<Answer> {
  const [, , verb] = request.path;
  let unknown: StoreError | null = null;
  for (let again = 0; ; again++) {
    try {
      const answer = await routes.answer(request);
      // Refused now, it may have been done before, and what came after it may hide that.
      if (unknown !== null && verb === "release" && answer.status !== 200) throw unknown;
      return answer;
    } catch (error) {
      if (error === unknown || !(error instanceof StoreError) || error.kind !== "unknown") throw error;
      const isSafe = verb !== "acquire" || typeof request.body["request_id"] === "string";
      if (again >= unknownMax || !isSafe) throw error;
      unknown = error;
    }
  }
}

function requestOf(address: string, { method = "GET", body, signal }: Init): Request {
  const { pathname, searchParams } = new URL(address);
  return {
    method,
    path: pathname.split("/").slice(1).map(decodeURIComponent),
    query: searchParams,
    body: body === undefined ? {} : (JSON.parse(body) as Readonly<Record<string, unknown>>),
    signal,
    id: randomBytes(16).toString("hex"),
  };
}

export function failureAnswer(error: unknown): Answer {
  if (error instanceof Refused) return error.answer;
  if (!(error instanceof StoreError))
    return problem("internal", error instanceof Error ? error.message : String(error), { status: 500 });
  switch (error.kind) {
    case "unsupported":
      return problem("invalid_input", error.message);
    case "corrupt":
      return problem("unavailable", `Certainly not done: ${error.message}.`, { status: 500 });
    default:
      // What git says often ends in a full stop, and more follows here.
      return storeAnswer(new StoreError(error.kind, error.message.replace(/\.+$/, "")));
  }
}

function replyOf({ status, body }: Answer): Reply {
  const text = JSON.stringify(body);
  return {
    ok: status < 300,
    status,
    headers: { get: (name) => (name === "content-type" ? "application/json" : null) },
    body: null,
    text: async () => text,
    json: async () => body,
  };
}

const streamReply = (reader: Reader): Reply => ({
  ok: true,
  status: 200,
  headers: { get: (name) => (name === "content-type" ? "text/event-stream" : null) },
  body: { getReader: () => reader },
  text: async () => "",
  json: async () => null,
});
