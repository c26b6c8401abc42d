// What lies between clones and a remote that is served by `git daemon`: it passes everything, but for pushes that it lets
// the remote make and whose answer it loses, and for those that it cuts before the remote hears of them. Who pushes
// cannot tell the two apart.
import { once } from "node:events";
import { createServer, type Server as Listener, type Socket, connect as tcpConnect } from "node:net";

export type PushFate = "pass" | "lose-answer" | "cut";

/** A push that was not passed: from its commands to its end, on the clock that was given. */
export interface StruckPush {
  readonly fate: Exclude<PushFate, "pass">;
  readonly began: number;
  readonly ended: number;
  /** The remote said that it had changed its references. */
  readonly hasLanded: boolean;
}

export class PushProxy implements AsyncDisposable {
  fateOf: () => PushFate = () => "pass";
  onStruck: (struck: StruckPush) => void = () => undefined;
  readonly #listener: Listener;
  readonly #sockets = new Set<Socket>();

  private constructor(
    readonly daemonPort: number,
    readonly now: () => number,
  ) {
    this.#listener = createServer((clone) => this.#accept(this.#keep(clone)));
  }

  static async start(daemonPort: number, now: () => number): Promise<PushProxy> {
    const proxy = new PushProxy(daemonPort, now);
    proxy.#listener.listen(0, "127.0.0.1");
    await once(proxy.#listener, "listening");
    return proxy;
  }

  get port(): number {
    const address = this.#listener.address();
    if (address === null || typeof address === "string") throw new Error("the proxy does not listen");
    return address.port;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#listener, "close");
    this.#listener.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #accept(clone: Socket): void {
    const remote = this.#keep(tcpConnect(this.daemonPort, "127.0.0.1"));
    const commands = new Commands();
    let push: { readonly fate: PushFate; readonly began: number } | null = null;
    let answer = "";
    clone.on("data", (bytes: Buffer) => {
      if (push === null && commands.beginIn(bytes)) push = { fate: this.fateOf(), began: this.now() };
      if (push?.fate !== "cut") return void remote.write(bytes);
      this.#tell({ fate: "cut", began: push.began, hasLanded: false });
      clone.resetAndDestroy();
    });
    remote.on("data", (bytes: Buffer) => {
      if (push?.fate === "lose-answer") answer += bytes.toString("latin1");
      else if (push?.fate !== "cut") clone.write(bytes);
    });
    remote.once("end", () => {
      // Nothing is left to be done at the remote: whatever it did, it has said.
      if (push?.fate !== "lose-answer") return void clone.end();
      this.#tell({ fate: "lose-answer", began: push.began, hasLanded: /ok refs\//.test(answer) });
      clone.resetAndDestroy();
    });
    clone.once("end", () => remote.end());
    clone.once("close", () => remote.destroy());
    remote.once("close", () => clone.destroy());
  }

  #tell(struck: Omit<StruckPush, "ended">): void {
    this.onStruck({ ...struck, ended: this.now() });
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("error", () => undefined); // "close" follows
    socket.once("close", () => this.#sockets.delete(socket));
    return socket;
  }
}

/** Finds where a clone that wants to push says what: after its first line, and not if it says at once that it is done. */
class Commands {
  #heard = "";

  /** Whether they begin with these bytes. */
  beginIn(bytes: Buffer): boolean {
    const before = this.#heard.length;
    this.#heard += bytes.toString("latin1");
    const isPush = /^[0-9a-f]{4}git-receive-pack /.test(this.#heard);
    const firstEnd = Number.parseInt(this.#heard.slice(0, 4), 16);
    if (!isPush || this.#heard.length <= firstEnd || before > firstEnd) return false;
    return !this.#heard.slice(firstEnd).startsWith("0000");
  }
}
