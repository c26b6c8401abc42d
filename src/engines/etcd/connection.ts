/**
 * One connection to one member of the cluster: gRPC over HTTP/2, of which only calls with one answer and one kind of stream are
 * needed. Written here because it is small, and answers in half the time that the general package takes (docs/decisions/0010).
 */
import { type ClientHttp2Session, type ClientHttp2Stream, connect, constants } from "node:http2";
import { whyNotOpened } from "./no-connection.js";
import { frameHead } from "./protobuf.js";

export interface Endpoint {
  /** As `127.0.0.1:2379`. */
  readonly authority: string;
  readonly tls: Tls | null;
}

export interface Tls {
  readonly ca: Buffer | undefined;
  readonly cert: Buffer | undefined;
  readonly key: Buffer | undefined;
}

/** Codes of gRPC that are told apart. `none`: the member gave no answer at all. */
export const codes = {
  none: -1,
  ok: 0,
  invalidArgument: 3,
  deadlineExceeded: 4,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  outOfRange: 11,
  unavailable: 14,
  unauthenticated: 16,
} as const;

export class CallError extends Error {
  override readonly name = "CallError";
  constructor(
    readonly code: number,
    message: string,
    /** false: the member certainly did not get the call. */
    readonly isSent: boolean,
    /** What a person at the start can do about it; callers of a server that runs cannot. */
    readonly advice: string | null = null,
  ) {
    super(message);
  }
}

export interface Stream {
  cancel(): void;
}

interface Outcome {
  code: number;
  message: string;
}

/** How much of an answer may be under way unread: a page of large records must not wait for permission to be sent. */
const windowBytes = 4 * 2 ** 20;
/** Far above what any etcd takes (1.5 MiB, unless told otherwise); sending more only to have it refused would hold up others. */
const messageMaxBytes = 16 * 2 ** 20;
/** What may wait to be sent and read, in MB: Node cuts a connection that exceeds it, with all calls that are on it. */
const sessionMemoryMb = 256;

export class Connection {
  /** When anything came from the member last, and since when it owes an answer. Monotonic, ms. */
  #heardAt = performance.now();
  #owesSince = 0;
  #owed = 0;
  #isClosing = false;
  readonly #streams = new Set<ClientHttp2Stream>();
  readonly #repeatable = new Set<() => void>();

  private constructor(
    readonly endpoint: Endpoint,
    readonly session: ClientHttp2Session,
  ) {
    session.setLocalWindowSize(windowBytes);
    session.on("error", () => undefined); // told by every call that it ends
  }

  /** Resolves once the member has said its first word: a stopped process still takes connections. */
  static open(endpoint: Endpoint, withinMs: number): Promise<Connection> {
    const { authority, tls } = endpoint;
    return new Promise((resolve, reject) => {
      const session = connect(`${tls === null ? "http" : "https"}://${authority}`, {
        maxSessionMemory: sessionMemoryMb,
        settings: { enablePush: false, initialWindowSize: windowBytes },
        ...(tls === null ? {} : tls),
      });
      const fail = (error: Error | null): void => {
        clearTimeout(timer);
        session.destroy();
        const { what, advice } = whyNotOpened(authority, tls !== null, error);
        reject(new CallError(codes.none, what, false, advice));
      };
      const late = new Error(`no answer within ${withinMs} ms`);
      const timer = setTimeout(() => fail(late), withinMs);
      session.once("error", fail);
      session.once("close", () => fail(null));
      session.once("remoteSettings", () => {
        clearTimeout(timer);
        session.removeAllListeners("close");
        resolve(new Connection(endpoint, session));
      });
    });
  }

  get isUsable(): boolean {
    return !this.#isClosing && !this.session.closed && !this.session.destroyed;
  }

  /** For how long an answer has been owed without any word, in ms. */
  silentMs(): number {
    return this.#owed === 0 ? 0 : performance.now() - Math.max(this.#heardAt, this.#owesSince);
  }

  /** The answer to one call. Rejects with a `CallError`. */
  call(
    method: string,
    message: Buffer,
    withinMs: number,
    token: string | null,
    /** Whoever asks can ask another: it need not wait here once this connection is given up. */
    isRepeatable = true,
  ): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      if (message.length > messageMaxBytes) {
        reject(new CallError(codes.invalidArgument, "request is too large", true));
        return;
      }
      let stream: ClientHttp2Stream;
      try {
        stream = this.session.request(headersOf(method, token, withinMs));
      } catch (error) {
        reject(new CallError(codes.none, textOf(error), false));
        return;
      }
      if (this.#owed++ === 0) this.#owesSince = performance.now();
      const parts: Buffer[] = [];
      const outcome = this.#outcomeOf(stream);
      const settle = (): void => {
        stream.off("close", settle);
        clearTimeout(timer);
        this.#repeatable.delete(abandon);
        this.#owed--;
        const bytes = parts.length === 1 ? parts[0] : Buffer.concat(parts);
        if (outcome.code === codes.ok && bytes !== undefined && bytes.length >= frameHead)
          resolve(bytes.subarray(frameHead));
        else reject(failureOf(outcome, stream.rstCode));
      };
      // Not left to the end of the stream: a member that is stopped may hold that up, too.
      const abandon = (): void => {
        outcome.message ||= "no answer in time";
        settle();
        stream.close(constants.NGHTTP2_CANCEL);
      };
      const timer = setTimeout(abandon, withinMs);
      if (isRepeatable) this.#repeatable.add(abandon);
      stream.on("data", (part: Buffer) => {
        this.#heardAt = performance.now();
        parts.push(part);
      });
      stream.on("close", settle);
      stream.end(message);
    });
  }

  /** Every message that the member sends until it ends, or is cancelled; `ended` is called once, then. */
  stream(
    method: string,
    message: Buffer,
    token: string | null,
    told: (message: Buffer) => void,
    ended: (why: CallError) => void,
  ): Stream {
    let stream: ClientHttp2Stream;
    try {
      stream = this.session.request(headersOf(method, token, null));
    } catch (error) {
      setImmediate(() => ended(new CallError(codes.none, textOf(error), false)));
      return { cancel: () => undefined };
    }
    const outcome = this.#outcomeOf(stream);
    let unread: Buffer = Buffer.alloc(0);
    stream.on("data", (part: Buffer) => {
      this.#heardAt = performance.now();
      unread = unread.length === 0 ? part : Buffer.concat([unread, part]);
      while (unread.length >= frameHead) {
        const end = frameHead + unread.readUInt32BE(1);
        if (unread.length < end) break;
        const whole = unread.subarray(frameHead, end);
        unread = unread.subarray(end);
        told(whole);
      }
    });
    this.#streams.add(stream);
    stream.once("close", () => {
      this.#streams.delete(stream);
      ended(new CallError(outcome.code, outcome.message || "the stream ended", true));
    });
    stream.write(message);
    return { cancel: () => stream.close(constants.NGHTTP2_CANCEL) };
  }

  /** Filled in as the answer comes. An error comes as headers alone, or behind what there is. */
  #outcomeOf(stream: ClientHttp2Stream): Outcome {
    const outcome: Outcome = { code: codes.none, message: "" };
    const read = (headers: { readonly [name: string]: unknown }): void => {
      this.#heardAt = performance.now();
      const code = headers["grpc-status"];
      if (code === undefined) {
        const status = headers[":status"];
        if (status !== undefined && status !== 200)
          outcome.message = `HTTP status ${status}: not etcd's gRPC port`;
        return;
      }
      outcome.code = Number(code);
      const text = headers["grpc-message"];
      if (typeof text === "string") outcome.message = unescaped(text);
      // It may refuse a call that it has not read to its end, and waits for us to leave off.
      if (outcome.code !== codes.ok) stream.close(constants.NGHTTP2_CANCEL);
    };
    stream.on("response", read);
    stream.on("trailers", read);
    stream.on("error", (error: Error) => {
      outcome.message ||= error.message;
    });
    return outcome;
  }

  /** Takes no further calls; streams and calls that can be repeated end, others go on until their own time is up. */
  retire(): void {
    this.#isClosing = true;
    for (const stream of this.#streams) stream.close(constants.NGHTTP2_CANCEL);
    for (const abandon of this.#repeatable) abandon();
    if (!this.session.destroyed) this.session.close();
  }

  close(): void {
    this.#isClosing = true;
    this.session.destroy();
  }
}

function failureOf({ code, message }: Outcome, rstCode: number | undefined): CallError {
  return new CallError(
    code === codes.ok ? codes.none : code,
    message || "the connection was lost",
    rstCode !== constants.NGHTTP2_REFUSED_STREAM,
  );
}

function headersOf(method: string, token: string | null, withinMs: number | null) {
  return {
    [constants.HTTP2_HEADER_METHOD]: "POST",
    [constants.HTTP2_HEADER_PATH]: method,
    [constants.HTTP2_HEADER_CONTENT_TYPE]: "application/grpc",
    te: "trailers",
    // A member that has lost its cluster says so at once instead of keeping us waiting.
    hasleader: "true",
    ...(withinMs === null ? {} : { "grpc-timeout": `${Math.max(1, Math.floor(withinMs))}m` }),
    ...(token === null ? {} : { token }),
  };
}

const textOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

function unescaped(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
