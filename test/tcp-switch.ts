// A name that moves: a port on loopback whose connections go to another one, which a test can change or cut.
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

export class TcpSwitch {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #target: number;

  private constructor(target: number) {
    this.#target = target;
    this.#server = createServer((from) => this.#join(from));
  }

  static async start(target: number): Promise<TcpSwitch> {
    const made = new TcpSwitch(target);
    made.#server.listen(0, "127.0.0.1");
    await once(made.#server, "listening");
    return made;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? address.port : 0;
  }

  /** New connections go there; those of before are cut. */
  turnTo(target: number): void {
    this.#target = target;
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): void {
    this.#server.close();
    this.turnTo(0);
  }

  #join(from: Socket): void {
    const to = connect(this.#target, "127.0.0.1");
    for (const [socket, other] of [
      [from, to],
      [to, from],
    ] as const) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    from.pipe(to).pipe(from);
  }
}
