/**
 * One request and its reply over connections that stay open. What went wrong is told apart by what the service may
 * have done: a request that surely never left, and one whose reply is lost.
 */
import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";

export interface Asked {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  /** Below the service's URL, with its query. */
  readonly path: string;
  readonly body?: object;
}

export type Heard =
  | { readonly kind: "reply"; readonly status: number; readonly body: unknown; readonly retryAfterMs: number }
  | { readonly kind: "unsent"; readonly why: string }
  | { readonly kind: "lost"; readonly why: string };

export interface Limits {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** What a service may ask for silence at most, in ms: a wrong header must not stop a run. */
const retryAfterMaxMs = 10_000;

export class Exchange {
  readonly #base: string;
  readonly #agent: HttpAgent;
  readonly #request: typeof httpRequest;

  constructor(url: string, connectionsMax: number) {
    this.#base = url.replace(/\/+$/, "");
    const options = { keepAlive: true, maxSockets: connectionsMax };
    const isSecure = this.#base.startsWith("https:");
    this.#agent = isSecure ? new HttpsAgent(options) : new HttpAgent(options);
    this.#request = isSecure ? httpsRequest : httpRequest;
  }

  /** Never rejects. */
  async ask(bearer: string, asked: Asked, limits: Limits): Promise<Heard> {
    const { signal } = limits;
    if (signal?.aborted) return { kind: "unsent", why: "cut" };
    const sent = this.open(bearer, asked);
    let mayHaveLeft = false;
    sent.once("socket", (socket) => {
      const leaves = (): void => {
        mayHaveLeft = true;
      };
      if (socket.connecting) socket.once("connect", leaves);
      else leaves();
    });
    let why: string | undefined;
    const give = (reason: string) => (): void => {
      why = reason;
      sent.destroy();
    };
    const onTime = setTimeout(give("timeout"), limits.timeoutMs);
    const onCut = give("cut");
    signal?.addEventListener("abort", onCut, { once: true });
    try {
      const reply = await replyTo(sent);
      return await read(reply);
    } catch (error) {
      return { kind: mayHaveLeft ? "lost" : "unsent", why: why ?? codeOf(error) };
    } finally {
      clearTimeout(onTime);
      signal?.removeEventListener("abort", onCut);
    }
  }

  /** A request that is on its way. */
  open(bearer: string, { method, path, body }: Asked, more: Record<string, string> = {}): ClientRequest {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const sent = this.#request(this.#base + path, {
      method,
      agent: this.#agent,
      headers: {
        authorization: `Bearer ${bearer}`,
        ...(text === undefined
          ? {}
          : { "content-type": "application/json", "content-length": String(Buffer.byteLength(text)) }),
        ...more,
      },
    });
    sent.end(text);
    return sent;
  }

  close(): void {
    this.#agent.destroy();
  }
}

export const replyTo = (sent: ClientRequest): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    sent.once("response", resolve);
    // Also after the response: a connection that breaks later must not end the process.
    sent.on("error", reject);
  });

async function read(reply: IncomingMessage): Promise<Heard> {
  let text = "";
  for await (const chunk of reply.setEncoding("utf8")) text += chunk as string;
  const body = parsed(text);
  return { kind: "reply", status: reply.statusCode ?? 0, body, retryAfterMs: retryAfter(reply, body) };
}

/** Undefined where it is not JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function retryAfter(reply: IncomingMessage, body: unknown): number {
  const own = (body as { retry_after_ms?: unknown } | null | undefined)?.retry_after_ms;
  const ms = typeof own === "number" ? own : 1000 * Number(reply.headers["retry-after"] ?? 0);
  return Number.isFinite(ms) ? Math.min(Math.max(ms, 0), retryAfterMaxMs) : 0;
}

const codeOf = (error: unknown): string =>
  error instanceof Error ? ((error as NodeJS.ErrnoException).code ?? error.message) : String(error);
