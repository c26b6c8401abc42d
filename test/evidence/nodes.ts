// The servers of a cell: all that callers can ask, each behind a proxy of its own.
import type { Operation } from "../../src/verify/history.js";
import { monotonicMs } from "../../src/verify/http/clock.js";
import type { Server, ServerOptions } from "../server.js";
import type { Engine } from "./engines.js";
import { firstOf, type Node } from "./faults/fault.js";
import { TcpProxy } from "./proxy.js";

export class Nodes implements AsyncDisposable {
  readonly all: Node[] = [];

  /** The first as the options say; the others work on its data. */
  async start(engine: Engine, options: ServerOptions): Promise<void> {
    const count = 1 + engine.more.length;
    await this.#add(await engine.start(options), count);
    for (const join of engine.more) await this.#add(await join(this.first, {}), count);
  }

  get first(): Server {
    return firstOf({ nodes: this.all }).server;
  }

  async #add(server: Server, count: number): Promise<void> {
    const nth = this.all.length;
    // Load processes are dealt out to the nodes in turn.
    const isAsked = ({ process }: Operation): boolean => Number(process.split("/")[0]) % count === nth;
    this.all.push({ server, proxy: await TcpProxy.start(server.port, monotonicMs), isAsked });
  }

  /** The first ends last. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const { server, proxy } of [...this.all].reverse()) {
      await proxy[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    }
  }
}
