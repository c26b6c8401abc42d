// Two servers on one database, and clients that take and give back a few names at either of them, while one after the other is
// killed and started again: nobody holds a name beside another, tokens rise, no grant is left that nobody heard of, and who
// waits is served. Clients know only what is written for clients: repeat with the same request id, at any server.
import { setTimeout as delay } from "node:timers/promises";
import { call, type Server } from "../server.js";
import { type Answer, Client } from "../system-client.js";
import type { Engine } from "./engines.js";
import { Nodes } from "./nodes.js";
import { principals } from "./principals.js";
import { endsSoon } from "./proofs.js";

export interface ClusterPlan {
  readonly clients: number;
  readonly rounds: number;
  readonly names: number;
  /** Between two kills, in ms. */
  readonly killEveryMs: number;
  /** No more than these: each holds up those behind the waiters of the dead for seconds. */
  readonly killsMax: number;
}

export const wholeCluster: ClusterPlan = {
  clients: 64,
  rounds: 10_000,
  names: 8,
  killEveryMs: 4000,
  killsMax: 100,
};

/** Far more than a client is kept from a name by all others before it, and what may be left of a call of a server that died. */
const ttlSeconds = 20;
const waitSeconds = 10;
/** In ms: nobody waits for longer until it holds the name, over all its calls. */
const servedWithinMs = 120_000;
const pauseMs = 50;
/** Fewer show too little: each server once. */
const killsMin = 2;

interface Name {
  readonly name: string;
  /** Who is between its grant and its release. */
  holder: string | null;
  lastToken: number;
  readonly tokens: Set<number>;
}

class Race {
  readonly names: readonly Name[];
  readonly broken: string[] = [];
  done = 0;
  repeats = 0;
  slowestMs = 0;
  kills = 0;
  #begun = 0;

  constructor(
    readonly plan: ClusterPlan,
    readonly urls: readonly string[],
  ) {
    this.names = Array.from({ length: plan.names }, (_, nth) => ({
      name: `cluster-${nth}`,
      holder: null,
      lastToken: 0,
      tokens: new Set<number>(),
    }));
  }

  async run(): Promise<void> {
    await Promise.all(Array.from({ length: this.plan.clients }, (_, nth) => this.#client(nth)));
  }

  async #client(nth: number): Promise<void> {
    const { bearer = "" } = principals[nth % principals.length] ?? {};
    const clients = this.urls.map((url) => new Client(url, bearer, { sockets: 1 }));
    const isOver = (): boolean => this.#begun >= this.plan.rounds && this.kills >= killsMin;
    for (let round = 0; !isOver() && this.broken.length === 0; round++) {
      this.#begun++;
      const name = this.names[(nth + round * 5) % this.names.length];
      if (name === undefined) throw new Error("there are no names");
      await this.#take(clients, nth + round, name, `client-${nth}-${round}`);
    }
    for (const client of clients) client.close();
  }

  async #take(clients: readonly Client[], first: number, name: Name, id: string): Promise<void> {
    const began = performance.now();
    const body = { ttl_seconds: ttlSeconds, wait_seconds: waitSeconds, request_id: id };
    const lease = await this.#insist(
      clients,
      first,
      began,
      (client) => client.acquire(name.name, body),
      ({ body: { status } }) => status === "acquired",
    );
    if (lease === null) return this.#accuse(`${id} waited for ${name.name} in vain`);
    this.slowestMs = Math.max(this.slowestMs, performance.now() - began);
    const { fencing_token: token, lease_id } = lease.body;
    if (name.holder !== null) this.#accuse(`${id} and ${name.holder} held ${name.name} at once`);
    if (token <= name.lastToken) this.#accuse(`${name.name}: token ${token} came after ${name.lastToken}`);
    name.holder = id;
    name.lastToken = token;
    name.tokens.add(token);
    await delay(1);
    name.holder = null;
    // Repeated after a lost reply, it may have been done already.
    const isOver = ({ status, body }: Answer): boolean => status === 200 || body.code === "lease_not_current";
    const from = performance.now();
    const released = await this.#insist(
      clients,
      first,
      from,
      (client) => client.release(name.name, lease_id),
      isOver,
    );
    if (released === null) this.#accuse(`${id} could not give ${name.name} back`);
    this.done++;
  }

  /** Asks one server after the other until the answer is what it must come to; null: not in time. */
  async #insist(
    clients: readonly Client[],
    first: number,
    began: number,
    ask: (client: Client) => Promise<Answer>,
    isIt: (answer: Answer) => boolean,
  ): Promise<Answer | null> {
    for (let tries = 0; performance.now() - began < servedWithinMs; tries++) {
      const client = clients[(first + tries) % clients.length];
      if (client === undefined) throw new Error("there is no server");
      const answer = await ask(client).catch(() => null); // it was killed
      if (answer !== null && isIt(answer)) return answer;
      this.repeats++;
      // Who was told that another has it waited already.
      if (answer === null || answer.status !== 409) await delay(pauseMs);
    }
    return null;
  }

  #accuse(what: string): void {
    this.broken.push(what);
  }
}

/** Kills one server after the other, and starts each again. */
async function killInTurn(nodes: Nodes, race: Race, over: AbortSignal): Promise<void> {
  const { killEveryMs, killsMax } = race.plan;
  while (race.kills < killsMax) {
    await delay(killEveryMs, undefined, { signal: over }).catch(() => undefined);
    if (over.aborted) return;
    const node = nodes.all[race.kills % nodes.all.length];
    if (node === undefined) throw new Error("there is no server");
    node.server.kill("SIGKILL");
    if (!(await endsSoon(node.server))) throw new Error("a killed server did not end");
    node.server = await node.server.restart();
    race.kills++;
  }
}

/** Why it is red; empty when it is green. */
export async function runCluster(
  engine: Engine,
  plan: ClusterPlan,
  say: (line: string) => void,
): Promise<string[]> {
  await using nodes = new Nodes();
  await nodes.start(engine, {});
  const race = new Race(
    plan,
    nodes.all.map(({ server }) => server.url),
  );
  const over = new AbortController();
  const from = performance.now();
  const killing = killInTurn(nodes, race, over.signal);
  try {
    await Promise.race([race.run(), killing.then(() => new Promise<void>(() => undefined))]);
  } finally {
    over.abort();
  }
  await killing;
  const seconds = ((performance.now() - from) / 1000).toFixed(1);
  say(
    `${engine.name}: ${race.done} times taken and given back by ${plan.clients} clients on ${plan.names} names in ${seconds} s, ` +
      `${race.kills} kills, ${race.repeats} calls repeated, the longest wait ${(race.slowestMs / 1000).toFixed(1)} s`,
  );
  return [
    ...race.broken.slice(0, 10),
    ...(await ghosts(race, nodes.first)),
    ...(race.done >= plan.rounds || race.broken.length > 0 ? [] : [`only ${race.done} rounds were done`]),
    ...(race.kills >= killsMin ? [] : [`only ${race.kills} kills: it shows too little`]),
  ];
}

interface State {
  readonly status: string;
  readonly fencing_token: number;
}

/** Every name is free, and as many tokens were granted as somebody heard of. */
async function ghosts({ names, broken }: Race, server: Server): Promise<string[]> {
  if (broken.length > 0) return []; // rounds were left in the middle
  const looks = await Promise.all(
    names.map(async ({ name, tokens }) => {
      const { bearer = "" } = principals[0] ?? {};
      const { body } = await call<State>(server, "GET", `/locks/${name}`, { token: bearer });
      if (body.status === "held") return [`${name} is held at the end, by token ${body.fencing_token}`];
      const unheard = body.fencing_token - tokens.size;
      return unheard === 0 ? [] : [`${name}: ${unheard} grants that nobody heard of`];
    }),
  );
  return looks.flat();
}
