// Counters outside the processes that write them, as a lease guards them in real life: whoever has read may be
// stopped before it writes. Fenced ones look at the token that comes with every read and write.
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { Tally } from "../../src/verify/lab.js";
import { Counter, totals } from "../../src/verify/workloads/counter.js";

interface Asked {
  readonly name: string;
  readonly isFenced: boolean;
  readonly token: number;
  /** To be written; without it the counter is read. */
  readonly value?: number;
}

/** What a counter answers: null where a later holder has been there. */
type Told = number | null;

export class Register implements AsyncDisposable {
  readonly #counters = new Map<string, Counter>();
  readonly #server: Server;

  private constructor() {
    this.#server = createServer(async (request, response) => {
      let text = "";
      for await (const chunk of request) text += chunk;
      response.end(JSON.stringify(this.#answer(JSON.parse(text) as Asked)));
    });
    // A writer that was stopped goes on over the connection that it had.
    this.#server.keepAliveTimeout = 0;
  }

  static async start(): Promise<Register> {
    const register = new Register();
    register.#server.listen(0, "127.0.0.1");
    await once(register.#server, "listening");
    return register;
  }

  get url(): string {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("the register does not listen");
    return `http://127.0.0.1:${address.port}`;
  }

  /** Of the counters whose names begin like this; nothing where there are none. */
  tally(prefix: string): Tally {
    const counters = [...this.#counters].filter(([name]) => name.startsWith(prefix));
    return counters.length === 0 ? {} : totals(counters.map(([, counter]) => counter));
  }

  #answer({ name, isFenced, token, value }: Asked): Told {
    const counter = this.#counters.get(name) ?? new Counter(isFenced);
    this.#counters.set(name, counter);
    if (value === undefined) return counter.read(token);
    return counter.write(token, value) ? value : null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }
}

export async function ask(url: string, asked: Asked): Promise<Told> {
  const reply = await fetch(url, { method: "POST", body: JSON.stringify(asked) });
  return (await reply.json()) as Told;
}
