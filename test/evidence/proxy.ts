// A TCP proxy between callers and a server that does to requests what bad networks do: loses the reply after the
// server gave it, cuts, delays, delivers late or twice, and parts the two. It reads as much HTTP as it needs to
// know where a request ends; callers must not pipeline.
import { once, setMaxListeners } from "node:events";
import { createServer, type Server as Listener, type Socket, connect as tcpConnect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

/** What happens to one request. */
export type Fate =
  | { readonly kind: "pass" }
  /** The server does it and answers; the caller's connection is cut instead of the reply. */
  | { readonly kind: "lose-reply" }
  /** The caller's connection is cut, the server never hears of it. */
  | { readonly kind: "cut" }
  /** It reaches the server after a while, the caller waits. */
  | { readonly kind: "delay"; readonly ms: number }
  /** The caller's connection is cut at once, and the server gets the request after a while. */
  | { readonly kind: "late"; readonly ms: number }
  /** It is passed on, and the same bytes once more after a while, on a connection of their own. */
  | { readonly kind: "duplicate"; readonly ms: number };

export interface Request {
  readonly method: string;
  readonly path: string;
  readonly bearer: string;
  readonly body: string;
}

/** A fate that came about: when, and what the server said to what the caller did not hear the answer of. */
export interface Struck {
  readonly fate: Fate["kind"];
  readonly request: Request;
  /** When the server got what the caller does not know of, and when its answer came: monotonic, in ms. */
  readonly began: number;
  readonly ended: number;
  /** How long after it had come from the caller it was passed on to the server; 0 if it never was. */
  readonly heldMs: number;
  /** null where nobody waits for an answer. */
  readonly answer: { readonly status: number; readonly body: string } | null;
}

export interface ProxyOptions {
  readonly fateOf: (request: Request) => Fate;
  readonly onStruck?: (struck: Struck) => void;
}

interface Pair {
  readonly caller: Socket;
  readonly server: Socket;
}

const passes: Fate = { kind: "pass" };

export class TcpProxy implements AsyncDisposable {
  readonly #listener: Listener;
  readonly #serverPort: number;
  readonly #sockets = new Set<Socket>();
  readonly #now: () => number;
  fateOf: ProxyOptions["fateOf"];
  onStruck: NonNullable<ProxyOptions["onStruck"]>;
  /** What is still to reach the server, or to be answered, without a caller. */
  readonly #unattended = new Set<Promise<void>>();
  /** Aborted when the proxy is gone: what is held then goes nowhere, and no connection is made any more. */
  readonly #gone = new AbortController();
  /** Set while the two are parted; resolves when they are not. */
  #parted: { readonly healed: Promise<void>; readonly heal: () => void } | null = null;

  private constructor(serverPort: number, options: Partial<ProxyOptions>, now: () => number) {
    setMaxListeners(0, this.#gone.signal); // every request that is held listens
    this.#serverPort = serverPort;
    this.#now = now;
    this.fateOf = options.fateOf ?? (() => passes);
    this.onStruck = options.onStruck ?? (() => undefined);
    this.#listener = createServer((caller) => this.#accept(caller));
  }

  static async start(
    serverPort: number,
    now: () => number,
    options: Partial<ProxyOptions> = {},
  ): Promise<TcpProxy> {
    const proxy = new TcpProxy(serverPort, options, now);
    proxy.#listener.listen(0, "127.0.0.1");
    await once(proxy.#listener, "listening");
    return proxy;
  }

  get url(): string {
    const address = this.#listener.address();
    if (address === null || typeof address === "string") throw new Error("the proxy does not listen");
    return `http://127.0.0.1:${address.port}`;
  }

  /** From here on nothing passes either way; what is sent meanwhile arrives when `heal` is called. */
  part(): void {
    let heal = (): void => undefined;
    const healed = new Promise<void>((resolve) => {
      heal = resolve;
    });
    this.#parted ??= { healed, heal };
  }

  /** Resolves when the server has answered all that was sent to it late or twice. */
  async settled(): Promise<void> {
    await Promise.all(this.#unattended);
  }

  heal(): void {
    this.#parted?.heal();
    this.#parted = null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#gone.signal.aborted) return;
    this.#gone.abort();
    this.heal();
    const closed = once(this.#listener, "close");
    this.#listener.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
    await this.settled();
  }

  /** Resolves after that time, or as soon as the proxy is gone. */
  async #hold(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#gone.signal }).catch(() => undefined);
  }

  #accept(caller: Socket): void {
    if (this.#gone.signal.aborted) return void caller.destroy();
    const pair: Pair = { caller: this.#keep(caller), server: this.#connect() };
    const reader = new RequestReader();
    let current: Exchange | null = null;
    // One after the other: a request that is held must not be passed by what comes behind it.
    let before = Promise.resolve();
    const inOrder = (step: () => void | Promise<void>): void => {
      before = before.then(async () => {
        await this.#parted?.healed;
        await step();
      });
    };
    caller.on("data", (bytes: Buffer) => {
      for (const whole of reader.read(bytes))
        inOrder(() => {
          current = new Exchange(whole, this.fateOf(whole.request), this.#now());
          return this.#send(current, pair);
        });
    });
    pair.server.on("data", (bytes: Buffer) => {
      const exchange = current;
      inOrder(() => {
        if (exchange === null || exchange.fate.kind !== "lose-reply") return void caller.write(bytes);
        if (!exchange.reply.add(bytes)) return;
        this.#tell(exchange);
        cutOff(caller);
      });
    });
    caller.on("close", () => inOrder(() => void pair.server.destroy()));
    pair.server.on("close", () => inOrder(() => void caller.destroy()));
  }

  async #send(exchange: Exchange, pair: Pair): Promise<void> {
    const { fate, bytes } = exchange;
    switch (fate.kind) {
      case "pass":
      case "lose-reply":
        pair.server.write(bytes);
        return;
      case "cut":
        this.#tell(exchange);
        cutOff(pair.caller);
        return;
      case "delay":
        await this.#hold(fate.ms);
        pair.server.write(bytes);
        exchange.passedAt = this.#now();
        this.#tell(exchange);
        return;
      case "late":
        cutOff(pair.caller);
        this.#sendAgain(exchange, fate.ms);
        return;
      case "duplicate":
        pair.server.write(bytes);
        this.#sendAgain(exchange, fate.ms);
        return;
    }
  }

  #sendAgain(exchange: Exchange, afterMs: number): void {
    const sending = this.#again(exchange, afterMs);
    this.#unattended.add(sending);
    void sending.then(() => this.#unattended.delete(sending));
  }

  /** Sends the bytes on a connection of their own and tells when the answer is there. */
  async #again(exchange: Exchange, afterMs: number): Promise<void> {
    await this.#hold(afterMs);
    if (this.#gone.signal.aborted) return;
    const server = this.#connect();
    exchange.began = this.#now();
    server.on("data", (bytes: Buffer) => {
      if (exchange.reply.add(bytes)) server.destroy();
    });
    server.write(exchange.bytes);
    exchange.passedAt = exchange.began;
    await new Promise<void>((resolve) => server.once("close", () => resolve()));
    this.#tell(exchange);
  }

  #tell({ fate, request, began, cameAt, passedAt, reply }: Exchange): void {
    const heldMs = passedAt === null ? 0 : passedAt - cameAt;
    this.onStruck({ fate: fate.kind, request, began, ended: this.#now(), heldMs, answer: reply.answer });
  }

  #connect(): Socket {
    return this.#keep(tcpConnect(this.#serverPort, "127.0.0.1"));
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("error", () => undefined); // "close" follows
    socket.once("close", () => this.#sockets.delete(socket));
    return socket;
  }
}

/**
 * Resets the connection. One that is being closed is only closed: Node cannot reset it then, keeps it for ever, and the
 * process spins when it ends (Node 20).
 */
export function cutOff(socket: Socket): void {
  if (socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}

interface Whole {
  readonly request: Request;
  readonly bytes: Buffer;
}

class Exchange {
  readonly request: Request;
  readonly bytes: Buffer;
  readonly reply = new ReplyReader();
  readonly cameAt: number;
  passedAt: number | null = null;

  constructor(
    { request, bytes }: Whole,
    readonly fate: Fate,
    public began: number,
  ) {
    this.request = request;
    this.bytes = bytes;
    this.cameAt = began;
  }
}

const headEnd = "\r\n\r\n";

/** Cuts what arrives into requests. */
class RequestReader {
  #rest = Buffer.alloc(0);

  *read(bytes: Buffer): Generator<Whole> {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    for (;;) {
      const at = this.#rest.indexOf(headEnd);
      if (at < 0) return;
      const head = this.#rest.toString("latin1", 0, at);
      const from = at + headEnd.length;
      const end = from + Number(headerIn(head, "content-length") ?? 0);
      if (this.#rest.length < end) return;
      const [method = "", path = ""] = head.split(" ", 2);
      const bearer = (headerIn(head, "authorization") ?? "").replace(/^Bearer /i, "");
      const body = this.#rest.toString("utf8", from, end);
      yield { request: { method, path, bearer, body }, bytes: this.#rest.subarray(0, end) };
      this.#rest = this.#rest.subarray(end);
    }
  }
}

/** Gathers one reply that says its length. */
class ReplyReader {
  answer: Struck["answer"] = null;
  #received = Buffer.alloc(0);

  /** Whether the reply is whole now. */
  add(bytes: Buffer): boolean {
    this.#received = Buffer.concat([this.#received, bytes]);
    const at = this.#received.indexOf(headEnd);
    if (at < 0) return false;
    const head = this.#received.toString("latin1", 0, at);
    const from = at + headEnd.length;
    const end = from + Number(headerIn(head, "content-length") ?? 0);
    if (this.#received.length < end) return false;
    this.answer = { status: Number(head.split(" ", 2)[1]), body: this.#received.toString("utf8", from, end) };
    return true;
  }
}

const headerIn = (head: string, name: string): string | undefined =>
  new RegExp(`\\r\\n${name}: *([^\\r]*)`, "i").exec(head)?.[1];
