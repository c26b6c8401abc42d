/**
 * One call over `fetch`: a deadline for each attempt, and a bounded number of attempts where the same call may be
 * repeated. Whoever calls makes sure that a repeat is harmless, by a request id or by the call's nature.
 */
import { onAbort } from "./aborting.js";
import { sleep } from "./durations.js";
import { type ErrorCode, HoldfastError, isTransient, notHoldfastText, refusalOf } from "./errors.js";

export interface TransportOptions {
  /** As `http://127.0.0.1:4280`; a path in front is kept. */
  readonly url: string;
  readonly token: string | undefined;
  /** Only for an operator's token: the space to act in. */
  readonly space: string | undefined;
  readonly fetch: typeof globalThis.fetch;
  /** How long one attempt may take, beyond what it asks the server to wait. */
  readonly timeoutMs: number;
  /** Attempts after the first. */
  readonly retries: number;
}

export interface CallOptions {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>> | undefined;
  readonly body?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
  /** What the server was asked to wait. */
  readonly waitMs?: number;
  readonly retries?: number;
  /** Statuses, besides 2xx, whose body is an answer and not an error. */
  readonly answers?: readonly number[];
  /** Fields of a good answer, by which it is known to be Holdfast's; none: it has no body. */
  readonly expects?: readonly string[];
  /** What the lease is on, where the call is about one: it may be lost. */
  readonly resource?: string;
  /** Told of an attempt whose outcome is not known, before the next. */
  readonly onUncertain?: (error: HoldfastError) => void;
}

export interface Reply {
  readonly status: number;
  /** With keys in camelCase and dates; what people put into `metadata` is left as it is. */
  readonly body: unknown;
}

const pauseFirstMs = 100;
const pauseMaxMs = 2000;
const retryAfterMaxMs = 10_000;

export class Transport {
  readonly #base: string;

  constructor(readonly options: TransportOptions) {
    this.#base = baseOf(options.url);
    if (!/^[!-~]*$/.test(options.token ?? ""))
      throw new TypeError("token holds a character that no token has: a space, or a line break at its end?");
  }

  /** The body of a good answer. */
  async ask<Body extends object>(
    call: CallOptions & { readonly expects: readonly (keyof Body & string)[] },
  ): Promise<Body> {
    return (await this.call(call)).body as Body;
  }

  /** Repeats transient failures; throws HoldfastError, or the signal's reason. */
  async call(call: CallOptions): Promise<Reply> {
    const retries = call.retries ?? this.options.retries;
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#attempt(call);
      } catch (error) {
        if (!isTransient(error) || attempt >= retries) throw error;
        if (error.code !== "unavailable" && error.code !== "rate_limited") call.onUncertain?.(error);
        await sleep(pauseMs(attempt, error), call.signal);
      }
    }
  }

  /** The response itself, for streams; an error status throws. */
  async open(call: CallOptions, signal: AbortSignal): Promise<Response> {
    const response = await this.#send(call, signal);
    if (!response.ok) throw this.#problemOf(call, response, await textOf(response));
    const type = response.headers.get("content-type") ?? "";
    if (!type.startsWith("text/event-stream")) throw this.notHoldfast(response, `content of type ${type}`);
    return response;
  }

  async #attempt(call: CallOptions): Promise<Reply> {
    const late = new AbortController();
    const timer = setTimeout(
      () => late.abort(new Error("no reply in time")),
      this.options.timeoutMs + (call.waitMs ?? 0),
    );
    const forget = onAbort(call.signal, () => late.abort(call.signal?.reason));
    try {
      call.signal?.throwIfAborted();
      const response = await this.#send(call, late.signal);
      const text = await textOf(response);
      if (!response.ok && !call.answers?.includes(response.status))
        throw this.#problemOf(call, response, text);
      const body = parsed(text);
      const expected = response.ok ? call.expects : ["code", "details"];
      if (body === undefined || (expected !== undefined && !isAsExpected(body, expected)))
        throw this.notHoldfast(response, text);
      return { status: response.status, body };
    } catch (error) {
      call.signal?.throwIfAborted();
      throw error instanceof HoldfastError ? error : this.unreachable(error);
    } finally {
      clearTimeout(timer);
      forget();
    }
  }

  async #send({ method, path, query, body, headers }: CallOptions, signal: AbortSignal): Promise<Response> {
    const { token, space, fetch } = this.options;
    try {
      return await fetch(`${this.#base}${path}${queryText(query)}`, {
        method,
        signal,
        // A bearer token goes to the server it is for, and nowhere else.
        redirect: "error",
        headers: {
          ...headers,
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...(space === undefined ? {} : { "holdfast-space": space }),
          ...(body === undefined ? {} : { "content-type": "application/json" }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
    } catch (error) {
      throw signal.aborted ? (signal.reason ?? error) : this.unreachable(error);
    }
  }

  /** The error that a reply stands for. */
  #problemOf({ resource }: CallOptions, response: Response, text: string): HoldfastError {
    const fields = problemFields(parsed(text));
    const { code, details } = fields;
    if (typeof code !== "string" || typeof details !== "string") return this.notHoldfast(response, text);
    const problem = {
      code: code as ErrorCode,
      status: response.status,
      requestId: response.headers.get("x-request-id"),
      fields: { ...fields, retryAfterMs: fields["retryAfterMs"] ?? retryAfterOf(response) },
    };
    return refusalOf(details, problem, resource);
  }

  /** Somebody answers, in words that are not Holdfast's. */
  notHoldfast(response: Response, text: string): HoldfastError {
    return new HoldfastError(notHoldfastText(this.#base, response.status, text), {
      code: "not_holdfast",
      status: response.status,
      requestId: null,
      fields: { retryAfterMs: retryAfterOf(response) },
    });
  }

  unreachable(error: unknown): HoldfastError {
    return new HoldfastError(
      `No reply from ${this.#base}: ${reasonOf(error)}. Is the server running, and is this its address?`,
      { code: "unreachable", status: null, requestId: null, fields: {} },
      { cause: error },
    );
  }
}

function baseOf(url: string): string {
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw new TypeError(`url must be an address as http://127.0.0.1:4280: got ${url}`);
  }
  if (parsed.protocol !== "http:" && parsed.protocol !== "https:")
    throw new TypeError(`url must begin with http:// or https://: got ${url}`);
  if (parsed.username !== "" || parsed.password !== "")
    throw new TypeError("url must not hold a user or password: give the bearer token as `token`");
  return `${parsed.origin}${parsed.pathname.replace(/\/+$/, "")}`;
}

function queryText(query: CallOptions["query"]): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(query ?? {}))
    if (value !== undefined) params.set(key, String(value));
  return params.size === 0 ? "" : `?${params.toString()}`;
}

async function textOf(response: Response): Promise<string> {
  return response.status === 204 ? "" : response.text();
}

/** Undefined: it is no JSON. */
function parsed(text: string): unknown {
  try {
    return text === "" ? null : camelKeys(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** The fields of an error body. Under /v1 its code and message stand one level down, and its details are an object. */
function problemFields(body: unknown): Readonly<Record<string, unknown>> {
  const { error, ...fields } = Object(body) as Readonly<Record<string, unknown>>;
  if (typeof error !== "object" || error === null) return Object(body) as Readonly<Record<string, unknown>>;
  const { code, message, details } = error as Readonly<Record<string, unknown>>;
  return { ...fields, ...(Object(details) as object), code, details: message };
}

function isAsExpected(body: unknown, fields: readonly string[]): boolean {
  if (fields.length === 0) return body === null;
  return typeof body === "object" && body !== null && fields.every((field) => field in body);
}

function retryAfterOf(response: Response): number | undefined {
  const seconds = Number(response.headers.get("retry-after") ?? Number.NaN);
  return Number.isFinite(seconds) ? seconds * 1000 : undefined;
}

/** Exponential with full jitter, so that many callers do not come back in step; never sooner than the server says. */
export function pauseMs(attempt: number, error: HoldfastError | null): number {
  const jittered = Math.random() * Math.min(pauseMaxMs, pauseFirstMs * 2 ** attempt);
  const asked = Number(error?.fields["retryAfterMs"] ?? 0);
  return Math.max(10, jittered, Math.min(asked * (1 + Math.random() / 4), retryAfterMaxMs));
}

function reasonOf(error: unknown): string {
  const cause = (error as { cause?: { code?: string; message?: string } }).cause;
  return cause?.code ?? cause?.message ?? (error instanceof Error ? error.message : String(error));
}

/** `expires_in_ms` → `expiresInMs`, and instants to dates, at every depth but where the keys are people's own. */
export function camelKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelKeys);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
      key === "metadata" || key === "statuses"
        ? inner
        : isInstant(key, inner)
          ? new Date(inner)
          : camelKeys(inner),
    ]),
  );
}

const isInstant = (key: string, value: unknown): value is string =>
  typeof value === "string" && /(^|_)(at|since)$/.test(key);
