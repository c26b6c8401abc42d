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

/** What a service may ask for silence at most, in ms: beyond it a header is wrong. A run ends when its time is up all the same. */
const retryAfterMaxMs = 86_400_000;

export class Exchange {
  readonly #base: string;
  readonly #agent: HttpAgent;
  readonly #request: typeof httpRequest;

  /** `space`: the one that all its requests are about, where it is not that of the bearer token. */
  constructor(
    url: string,
    connectionsMax: number,
    readonly space: string | null = null,
  ) {
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
        ...(this.space === null ? {} : { "holdfast-space": this.space }),
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

/** For how long the service wants to be left alone, in ms; 0: it does not say. */
export function retryAfter({ headers }: Pick<IncomingMessage, "headers">, body: unknown): number {
  const own = (body as { retry_after_ms?: unknown } | null | undefined)?.retry_after_ms;
  const ms = typeof own === "number" ? own : retryAfterMs(headers["retry-after"] ?? "0", headers.date);
  return Number.isFinite(ms) ? Math.min(Math.max(ms, 0), retryAfterMaxMs) : 0;
}

/** Seconds, or a date on the clock of whoever sent it. */
const retryAfterMs = (text: string, sentAt: string | undefined): number =>
  /^\d+$/.test(text)
    ? 1000 * Number(text)
    : Date.parse(text) - (sentAt === undefined ? Date.now() : Date.parse(sentAt));

const codeOf = (error: unknown): string =>
  error instanceof Error ? ((error as NodeJS.ErrnoException).code ?? error.message) : String(error);
