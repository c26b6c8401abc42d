/**
 * The part of `fetch` that the client uses, over node:http. Node's own takes twice as long to load as Node itself takes
 * to start (docs/performance.md), which a lock in a shell loop would pay each time. Follows no redirect: a bearer token
 * goes to the server it is for, and nowhere else.
 */
import type { IncomingMessage } from "node:http";
import { createRequire } from "node:module";

const load = createRequire(import.meta.url);

/** What is used of a Response. */
interface SmallResponse {
  readonly ok: boolean;
  readonly status: number;
  readonly headers: { get(name: string): string | null };
  readonly body: { getReader(): { read(): Promise<{ done: boolean; value: Uint8Array | undefined }> } };
  text(): Promise<string>;
  json(): Promise<unknown>;
}

interface SmallRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal;
}

async function send(address: string, request: SmallRequest = {}): Promise<SmallResponse> {
  const url = new URL(address);
  // Not by `import`, which reads every export: from Node 22 on, one of them loads the very thing that is avoided here.
  const { request: begin } = load(
    url.protocol === "https:" ? "node:https" : "node:http",
  ) as typeof import("node:http");
  const { method = "GET", headers = {}, body, signal } = request;
  const reply = await new Promise<IncomingMessage>((resolve, reject) => {
    const call = begin(url, { method, headers }, (begun) => {
      begun.on("error", () => undefined); // whoever reads it is told; nobody else need be
      begun.once("end", over);
      resolve(begun);
    });
    // Without an error: a connection that its reply has left already would throw it at nobody.
    const cut = (): void => void call.destroy();
    const over = (): void => signal?.removeEventListener("abort", cut);
    signal?.addEventListener("abort", cut, { once: true });
    call.once("close", over);
    call.on("error", (cause) => reject(failureOf(cause, signal)));
    call.end(body);
    if (signal?.aborted === true) cut();
  });
  return responseOf(reply, signal);
}

/** As `fetch` does: the reason of whoever called it off, else what went wrong as the cause. */
const failureOf = (cause: unknown, signal: AbortSignal | undefined): unknown =>
  signal?.aborted === true ? signal.reason : new TypeError("fetch failed", { cause });

function responseOf(reply: IncomingMessage, signal: AbortSignal | undefined): SmallResponse {
  const status = reply.statusCode ?? 0;
  const text = async (): Promise<string> => {
    const chunks: Buffer[] = [];
    try {
      for await (const chunk of reply) chunks.push(chunk as Buffer);
    } catch (error) {
      throw failureOf(error, signal);
    }
    return Buffer.concat(chunks).toString("utf8");
  };
  // Nobody reads what is not there, and the connection would wait for it.
  if (status === 204) reply.resume();
  return {
    ok: status >= 200 && status < 300,
    status,
    headers: { get: (name) => headerText(reply.headers[name.toLowerCase()]) },
    body: { getReader: () => readerOf(reply) },
    text,
    json: async () => JSON.parse(await text()) as unknown,
  };
}

const headerText = (value: string | string[] | undefined): string | null =>
  value === undefined ? null : Array.isArray(value) ? value.join(", ") : value;

function readerOf(reply: IncomingMessage): ReturnType<SmallResponse["body"]["getReader"]> {
  const chunks = reply[Symbol.asyncIterator]() as AsyncIterator<Buffer, undefined>;
  return {
    read: async () => {
      const { done = false, value } = await chunks.next();
      return { done, value };
    },
  };
}

export const smallFetch = send as unknown as typeof globalThis.fetch;
