// What lies between one server and its database: passes bytes both ways, until it is parted. Then nothing passes, and what was
// sent meanwhile arrives afterwards; connections that are asked for meanwhile are made afterwards, too.
import { once } from "node:events";
import { connect, createServer, type Server as Listener, type Socket } from "node:net";

interface Pair {
  readonly near: Socket;
  readonly far: Socket;
}

export class Wire implements AsyncDisposable {
  readonly #listener: Listener;
  readonly #pairs = new Set<Pair>();
  /** Asked for while parted. */
  readonly #early: Socket[] = [];
  #isParted = false;

  private constructor(readonly farPort: number) {
    // Paused: what is sent before the other side is there must not be lost.
    this.#listener = createServer({ pauseOnConnect: true }, (near) => {
      near.on("error", () => undefined);
      if (this.#isParted) this.#early.push(near);
      else this.#join(near);
    });
  }

  static async start(farPort: number): Promise<Wire> {
    const wire = new Wire(farPort);
    wire.#listener.listen(0, "127.0.0.1");
    await once(wire.#listener, "listening");
    return wire;
  }

  get port(): number {
    const address = this.#listener.address();
    if (address === null || typeof address === "string") throw new Error("the wire does not listen");
    return address.port;
  }

  part(): void {
    this.#isParted = true;
    for (const { near, far } of this.#pairs) {
      near.unpipe(far).pause();
      far.unpipe(near).pause();
    }
  }

  heal(): void {
    this.#isParted = false;
    for (const pair of this.#pairs) flow(pair);
    for (const near of this.#early.splice(0)) this.#join(near);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#listener, "close");
    this.#listener.close();
    for (const { near, far } of this.#pairs) {
      near.destroy();
      far.destroy();
    }
    for (const near of this.#early) near.destroy();
    await closed;
  }

  #join(near: Socket): void {
    const far = connect(this.farPort, "127.0.0.1");
    const pair = { near, far };
    this.#pairs.add(pair);
    far.on("error", () => undefined); // "close" follows
    for (const socket of [near, far]) {
      socket.setNoDelay(true);
      socket.once("close", () => {
        near.destroy();
        far.destroy();
        this.#pairs.delete(pair);
      });
    }
    flow(pair);
  }
}

function flow({ near, far }: Pair): void {
  near.pipe(far);
  far.pipe(near);
}
