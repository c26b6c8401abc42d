// A raw HTTP/1.1 client connection, as cheap as Node allows so that the load generator is not what is measured:
// a TCP socket, one outstanding request, no agent, no header objects. It understands replies with a
// Content-Length, with chunks, and without a body; anything else closes it with a reason.

import { connect, type Socket } from "node:net";

export interface ConnectionEvents {
  onReply(status: number, body: string): void;
  onClose(reason: string): void;
}

const LENGTH = /\r\ncontent-length: *(\d+)/i;
const CHUNKED = /\r\ntransfer-encoding: *chunked/i;

/** Shared by all sockets of the process: a read is parsed (or copied) before the next read happens. */
const READ_BUFFER = Buffer.allocUnsafeSlow(256 * 1024);

export class Connection {
  readonly #socket: Socket;
  readonly #events: ConnectionEvents;
  #pending: string[] = [];
  #pendingChars = 0;
  /** How many characters are certainly needed before the next attempt to parse. */
  #needed = 0;
  #closed = false;

  private constructor(port: number, events: ConnectionEvents, onOpen: () => void) {
    this.#events = events;
    this.#socket = connect({
      host: "127.0.0.1",
      port,
      noDelay: true,
      onread: {
        buffer: READ_BUFFER,
        callback: (size: number) => {
          this.#receive(READ_BUFFER.toString("latin1", 0, size));
          return true;
        },
      },
    });
    this.#socket.once("connect", onOpen);
    this.#socket.on("error", (error) => this.#end(error.message));
    this.#socket.on("close", () => this.#end("closed by the server"));
  }

  static open(port: number, events: ConnectionEvents): Promise<Connection> {
    return new Promise((resolve, reject) => {
      const onClose = events.onClose.bind(events);
      let opened = false;
      const connection: Connection = new Connection(
        port,
        {
          onReply: events.onReply.bind(events),
          onClose: (reason) => (opened ? onClose(reason) : reject(new Error(`cannot connect: ${reason}`))),
        },
        () => {
          opened = true;
          resolve(connection);
        },
      );
    });
  }

  send(request: string): void {
    this.#socket.write(request, "latin1");
  }

  close(): void {
    this.#closed = true;
    this.#socket.destroy();
  }

  #receive(text: string): void {
    let whole = text;
    if (this.#pendingChars > 0) {
      this.#pending.push(text);
      this.#pendingChars += text.length;
      if (this.#pendingChars < this.#needed) return;
      whole = this.#pending.join("");
    }
    const parsed = parse(whole);
    if (typeof parsed === "number") this.#keep(whole, parsed);
    else if (typeof parsed === "string") this.#end(parsed);
    else this.#reply(parsed);
  }

  #keep(whole: string, needed: number): void {
    this.#pending = [whole];
    this.#pendingChars = whole.length;
    this.#needed = needed;
  }

  #reply({ status, body }: Reply): void {
    if (this.#pendingChars > 0) {
      this.#pending = [];
      this.#pendingChars = 0;
    }
    this.#events.onReply(status, body);
  }

  #end(reason: string): void {
    if (this.#closed) return;
    this.close();
    this.#events.onClose(reason);
  }
}

interface Reply {
  readonly status: number;
  readonly body: string;
}

/** The reply; or how many characters are needed before it can be complete; or what is wrong with it. */
function parse(text: string): Reply | number | string {
  const headEnd = text.indexOf("\r\n\r\n");
  if (headEnd < 0) return text.length + 1;
  const status = Number(text.slice(9, 12));
  const bodyStart = headEnd + 4;
  const length = LENGTH.exec(text);
  if (length !== null && length.index < headEnd) {
    const end = bodyStart + Number(length[1]);
    if (text.length < end) return end;
    return text.length > end ? "more bytes than one reply" : { status, body: text.slice(bodyStart) };
  }
  const chunked = CHUNKED.exec(text);
  if (chunked !== null && chunked.index < headEnd) {
    const body = joinChunks(text, bodyStart);
    return body === undefined ? text.length + 1 : { status, body };
  }
  if (status === 204 || status === 304) return { status, body: "" };
  return `a reply of unknown length: ${text.slice(0, 200)}`;
}

/** The body of a chunked reply, or undefined while its last chunk is missing. */
function joinChunks(text: string, start: number): string | undefined {
  let body = "";
  for (let at = start; ; ) {
    const lineEnd = text.indexOf("\r\n", at);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(text.slice(at, lineEnd), 16);
    const next = lineEnd + 2 + size + 2;
    if (text.length < next) return undefined;
    if (size === 0) return body;
    body += text.slice(lineEnd + 2, lineEnd + 2 + size);
    at = next;
  }
}
