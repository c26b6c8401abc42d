// A watch stream as its client sees it: frames in order, with their ids, comments and the end of the stream. The
// data of every frame is checked against the schema of watch events.
import assert from "node:assert/strict";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { WatchEvent } from "../src/wire/locks.js";
import { assertSchema, type Body, type Target } from "./http-api.js";

export interface Frame {
  id: string | null;
  event: string;
  data: Body & { event: string; lock_name: string; observed_at: string };
}

export interface WatchOptions {
  token: string;
  lastEventId?: string;
  headers?: Record<string, string>;
}

/** Words about the stream itself, not about a lock. */
const controlEvents = new Set(["synced", "reconnect"]);

const nextWithinMs = 8000;

export class Watch {
  readonly frames: Frame[] = [];
  readonly comments: string[] = [];
  /** The `retry:` that the server advises. */
  retryMs: number | null = null;
  /** Resolves when the stream has ended, however it did. */
  readonly ended: Promise<void>;
  isOver = false;
  #read = 0;
  #wake: () => void = () => undefined;
  #rest = "";

  constructor(readonly response: IncomingMessage) {
    response.setEncoding("utf8");
    response.on("data", (text: string) => this.#take(text));
    response.on("error", () => undefined);
    this.ended = new Promise((resolve) =>
      response.once("close", () => {
        this.isOver = true;
        this.#wake();
        resolve();
      }),
    );
  }

  #take(text: string): void {
    this.#rest += text;
    for (let end = this.#rest.indexOf("\n\n"); end !== -1; end = this.#rest.indexOf("\n\n")) {
      this.#block(this.#rest.slice(0, end));
      this.#rest = this.#rest.slice(end + 2);
    }
    this.#wake();
  }

  #block(block: string): void {
    const fields = new Map<string, string>();
    for (const line of block.split("\n")) {
      const colon = line.indexOf(":");
      if (colon === 0) this.comments.push(line);
      else fields.set(line.slice(0, colon), line.slice(colon + 1).replace(/^ /, ""));
    }
    if (fields.has("retry")) this.retryMs = Number(fields.get("retry"));
    const event = fields.get("event");
    if (event === undefined) return;
    const data = JSON.parse(fields.get("data") ?? "null") as Frame["data"];
    assert.equal(data.event, event);
    if (!controlEvents.has(event)) assertSchema(WatchEvent, data, `event ${event}`);
    this.frames.push({ id: fields.get("id") ?? null, event, data });
  }

  /** The next frame that was not read yet. */
  async next(withinMs = nextWithinMs): Promise<Frame> {
    for (const deadline = performance.now() + withinMs; ; ) {
      const frame = this.frames[this.#read];
      if (frame !== undefined) {
        this.#read++;
        return frame;
      }
      const left = deadline - performance.now();
      assert.ok(!this.isOver, `the stream ended; so far: ${this.#told()}`);
      assert.ok(left > 0, `no further event within ${withinMs} ms; so far: ${this.#told()}`);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  async take(count: number): Promise<Frame[]> {
    const frames: Frame[] = [];
    while (frames.length < count) frames.push(await this.next());
    return frames;
  }

  /** Reads on until the snapshot is complete; returns what came before that. */
  async synced(): Promise<Frame[]> {
    const before: Frame[] = [];
    for (;;) {
      const frame = await this.next();
      if (frame.event === "synced") return before;
      before.push(frame);
    }
  }

  close(): void {
    this.response.destroy();
  }

  #told(): string {
    return this.frames.map(({ event, data }) => `${event} ${data.name}`).join(", ");
  }
}

/** Opens a stream that must be granted. */
export async function watch(
  { port }: Target,
  path: string,
  { token, lastEventId, headers = {} }: WatchOptions,
): Promise<Watch> {
  const sent: Record<string, string> = { ...headers, authorization: `Bearer ${token}` };
  if (lastEventId !== undefined) sent["last-event-id"] = lastEventId;
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    httpRequest({ host: "127.0.0.1", port, path, headers: sent, agent: false }, resolve)
      .on("error", reject)
      .end();
  });
  assert.equal(response.statusCode, 200, `${path} answered ${response.statusCode}`);
  assert.equal(response.headers["content-type"], "text/event-stream; charset=utf-8");
  assert.match(String(response.headers["x-request-id"]), /^req_/);
  return new Watch(response);
}

/** Short form of frames, for comparing a whole stream at once. */
export const told = (frames: readonly Frame[]): string[] =>
  frames.map(({ event, data }) => `${event} ${data.name} ${data.fencing_token}`);
