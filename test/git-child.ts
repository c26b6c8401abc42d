// A process that asks for locks in a repository of its own accord, to race against others and to be killed.
//   node git-child.js DIR AUTHORITY PRINCIPAL
// It says `ready`, then answers every line of orders with a line. An order may name the instant at which it is to be done,
// by the machine's monotonic clock, so that several processes begin at once. `live` is answered line by line, for ever.
import { createInterface } from "node:readline";
import { StoreError } from "../src/store/store.js";
import { Asker, openAt } from "./git-lab.js";
import { seeded } from "./store-lab.js";

export interface Order {
  readonly what: "acquire" | "renew" | "release" | "list" | "look" | "live" | "close";
  readonly name?: string;
  readonly names?: readonly string[];
  readonly ttlMs?: number;
  /** When, in ms; without it: at once. */
  readonly at?: number;
  readonly seed?: number;
}

export interface Answer {
  readonly answer?: number | string | readonly string[];
  readonly leaseId?: string;
  readonly error?: string;
  readonly message?: string;
  /** When it was asked and answered. */
  readonly from: number;
  readonly to: number;
}

/** One line of `live`. */
export interface Lived {
  readonly what: "granted" | "renewed" | "releasing" | "failed";
  readonly name: string;
  readonly token: number;
  readonly from: number;
  readonly to: number;
  readonly message?: string;
}

export const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;

const [dir, authority = "local", principal = ""] = process.argv.slice(2);
if (dir !== undefined && /git-child\.js$/.test(process.argv[1] ?? "")) await serve(dir);

async function serve(at: string): Promise<void> {
  const store = openAt(at, { authority, env: process.env });
  const asker = new Asker(store, principal);
  const say = (value: unknown): void => void process.stdout.write(`${JSON.stringify(value)}\n`);
  say("ready");
  for await (const line of createInterface({ input: process.stdin })) {
    const order = JSON.parse(line) as Order;
    if (order.at !== undefined) await instant(order.at);
    const from = monotonicMs();
    if (order.what === "live") {
      await live(asker, order, say);
      continue;
    }
    const done = await obey(asker, order).catch((error: Error) => ({
      error: error instanceof StoreError ? error.kind : error.name,
      message: error.message,
    }));
    say({ ...done, from, to: monotonicMs() });
    if (order.what === "close") break;
  }
}

/** The last moment is waited out awake: a timer would wake the racers one after the other. */
async function instant(at: number): Promise<void> {
  const ms = at - monotonicMs() - 3;
  if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
  while (monotonicMs() < at);
}

async function obey(asker: Asker, { what, name = "", ttlMs }: Order): Promise<Partial<Answer>> {
  if (what === "acquire") return { answer: await asker.acquire(name, ttlMs), leaseId: asker.leaseId };
  if (what === "renew") return { answer: await asker.renew(name) };
  if (what === "release") return { answer: await asker.release(name) };
  if (what === "list") return { answer: await asker.list(name) };
  if (what === "close") await asker.store.close();
  return { answer: "done" };
}

/** Takes names, renews them and gives them back, by chance, until it is killed. */
async function live(asker: Asker, order: Order, say: (line: Lived) => void): Promise<never> {
  const { names = [], ttlMs = 1000, seed = 1 } = order;
  const chance = seeded(seed);
  for (;;) {
    const name = names[chance(names.length)] ?? "";
    let from = monotonicMs();
    const line = (what: Lived["what"], message?: string): void =>
      say({ what, name, token: asker.token, from, to: monotonicMs(), ...(message && { message }) });
    try {
      if (typeof (await asker.acquire(name, ttlMs)) === "string") {
        await new Promise((resolve) => setTimeout(resolve, 20));
        continue;
      }
      line("granted");
      for (let i = chance(4); i > 0; i--) {
        from = monotonicMs();
        if ((await asker.renew(name)) !== "renewed") break;
        line("renewed");
      }
      from = monotonicMs();
      if (chance(4) > 0) {
        line("releasing");
        await asker.release(name);
      }
    } catch (error) {
      line("failed", (error as Error).message);
    }
  }
}
