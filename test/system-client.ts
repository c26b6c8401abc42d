// What whole-system tests talk to a server with: a client that keeps its connections, a reader of event streams,
// waiting for a state that has no event, and the check that no secret reached the logs.
import assert from "node:assert/strict";
import { Agent, type ClientRequest, type IncomingMessage, request } from "node:http";
import { Agent as TlsAgent, request as tlsRequest } from "node:https";
import { setTimeout as delay } from "node:timers/promises";
import type { Server } from "./server.js";

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  /** Parsed when it is JSON, otherwise its text. */
  readonly body: Body;
}

/** The fields that tests look at; which are there depends on the route. */
export interface Body {
  readonly status: string;
  readonly code: string;
  readonly details: string;
  readonly name: string;
  readonly lease_id: string;
  readonly fencing_token: number;
  readonly token: number;
  readonly expires_at: string;
  readonly expires_in_ms: number;
  readonly retry_after_ms: number;
  readonly session_id: string;
  readonly waiters: number;
  readonly locks: readonly Body[];
  readonly available_at: string;
  readonly records: readonly { readonly action: string; readonly principal: string; readonly at: string }[];
  readonly next_cursor: string | null;
}

interface Sending {
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
}

/** One caller: a bearer token over connections that stay open, at most `sockets` at once. */
export class Client {
  readonly #agent: Agent;
  readonly #send: typeof request;

  constructor(
    readonly url: string,
    readonly bearer: string | null,
    { sockets = 64, ca }: { readonly sockets?: number; readonly ca?: string } = {},
  ) {
    const options = { keepAlive: true, maxSockets: sockets };
    this.#agent = url.startsWith("https:")
      ? new TlsAgent({ ...options, ...(ca === undefined ? {} : { ca }) })
      : new Agent(options);
    this.#send = url.startsWith("https:") ? tlsRequest : request;
  }

  get = (path: string, sending: Sending = {}): Promise<Answer> => this.call("GET", path, undefined, sending);
  post = (path: string, body: object = {}, sending: Sending = {}): Promise<Answer> =>
    this.call("POST", path, body, sending);
  del = (path: string, body: object = {}, sending: Sending = {}): Promise<Answer> =>
    this.call("DELETE", path, body, sending);

  acquire = (name: string, body: object = {}, sending: Sending = {}): Promise<Answer> =>
    this.post(`/locks/${name}/acquire`, body, sending);
  renew = (name: string, lease_id: string): Promise<Answer> =>
    this.post(`/locks/${name}/renew`, { lease_id });
  release = (name: string, lease_id: string): Promise<Answer> =>
    this.post(`/locks/${name}/release`, { lease_id });
  look = (name: string): Promise<Answer> => this.get(`/locks/${name}`);

  /** Rejects when the connection breaks before the whole reply is here. */
  async call(method: string, path: string, body: object | undefined, sending: Sending): Promise<Answer> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const sent = this.open(method, path, text, sending);
    if (text !== undefined) sent.write(text);
    sent.end();
    const reply = await replyTo(sent);
    let received = "";
    for await (const chunk of reply.setEncoding("utf8")) received += chunk as string;
    const isJson = /json/.test(reply.headers["content-type"] ?? "") && received !== "";
    const parsed: unknown = isJson ? JSON.parse(received) : received;
    return { status: reply.statusCode ?? 0, headers: reply.headers, body: parsed as Body };
  }

  /** A request whose body is still to be sent. */
  open(method: string, path: string, text: string | undefined, { headers, signal }: Sending): ClientRequest {
    return this.#send(this.url + path, {
      method,
      agent: this.#agent,
      headers: {
        ...(this.bearer === null ? {} : { authorization: `Bearer ${this.bearer}` }),
        ...(text === undefined
          ? {}
          : { "content-type": "application/json", "content-length": String(Buffer.byteLength(text)) }),
        ...headers,
      },
      ...(signal === undefined ? {} : { signal }),
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

const replyTo = (sent: ClientRequest): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => sent.once("response", resolve).once("error", reject));

export interface StreamEvent {
  readonly event: string;
  readonly id: string | null;
  readonly data: Body;
}

/** An open event stream. Iterating ends when the server ends it. */
export async function* watching(client: Client, path: string, lastId?: string): AsyncGenerator<StreamEvent> {
  const headers = lastId === undefined ? {} : { "last-event-id": lastId };
  const sent = client.open("GET", path, undefined, { headers });
  sent.end();
  const reply = await replyTo(sent);
  assert.equal(reply.statusCode, 200);
  let text = "";
  try {
    for await (const chunk of reply.setEncoding("utf8")) {
      text += chunk as string;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const event = eventIn(text.slice(0, end));
        text = text.slice(end + 2);
        if (event !== null) yield event;
      }
    }
  } finally {
    sent.destroy();
  }
}

function eventIn(block: string): StreamEvent | null {
  const field = (name: string): string | null =>
    block
      .split("\n")
      .find((line) => line.startsWith(`${name}: `))
      ?.slice(name.length + 2) ?? null;
  const event = field("event");
  if (event === null) return null;
  return { event, id: field("id"), data: JSON.parse(field("data") ?? "{}") as Body };
}

/** The next event of this kind. */
export async function eventOf(stream: AsyncGenerator<StreamEvent>, kind: string): Promise<StreamEvent> {
  for (;;) {
    const { value, done } = await stream.next();
    if (done) throw new Error(`the stream ended before an event ${kind}`);
    if (value.event === kind) return value;
  }
}

/** Asks again and again until the answer is not undefined, for states that nobody tells of. */
export async function until<Result>(
  ask: () => Result | undefined | Promise<Result | undefined>,
  what: string,
  withinMs = 15_000,
): Promise<Result> {
  for (const deadline = performance.now() + withinMs; performance.now() < deadline; ) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    await delay(10);
  }
  throw new Error(`not within ${withinMs} ms: ${what}`);
}

export const untilStatus = (client: Client, path: string, status: number): Promise<Answer> =>
  until(async () => {
    const answer = await client.get(path).catch(() => null);
    return answer?.status === status ? answer : undefined;
  }, `${path} answers ${status}`);

/** Resolves when nothing is left to be written but what is asked for from here on: the next sync is its own. */
export async function untilQuiet(client: Client): Promise<void> {
  await until(async () => {
    const text = String((await client.get("/metrics")).body);
    const gauge = (what: string): string | undefined => new RegExp(`what="${what}"} (\\d+)`).exec(text)?.[1];
    return gauge("applied_seq") === gauge("commits_total") ? true : undefined;
  }, "the log is empty");
}

/** Every held lock, page by page. */
export async function allLocks(client: Client, prefix = ""): Promise<Map<string, Body>> {
  const found = new Map<string, Body>();
  for (let cursor = ""; ; ) {
    const { status, body } = await client.get(`/locks?limit=500&prefix=${prefix}&cursor=${cursor}`);
    assert.equal(status, 200);
    for (const lock of body.locks) found.set(lock.name, lock);
    if (body.next_cursor === null) return found;
    cursor = body.next_cursor;
  }
}

/** What was written to the log and the terminal holds none of these. */
export function assertNoSecrets(server: Server, secrets: Iterable<string>): void {
  const written = server.stdout() + server.stderr();
  for (const secret of secrets)
    assert.ok(!written.includes(secret), `a secret stands in the output: ${contextOf(written, secret)}`);
}

function contextOf(text: string, found: string): string {
  const at = text.indexOf(found);
  return text.slice(Math.max(0, at - 200), at + found.length + 50);
}

/** The lines of the log. Fails on a line that is not JSON. */
export const logLines = (server: Server): { level: number; msg: string }[] =>
  server
    .stderr()
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as { level: number; msg: string });
