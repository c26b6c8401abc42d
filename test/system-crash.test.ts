// kill -9 under load, again and again on the same data: what was acknowledged is there afterwards, with its token
// and no shorter; what was released stays released; tokens only rise; a lost reply is found again by its request
// id; a stream that resumes shows no gap and no repeat.
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Server, startServer } from "./server.js";
import { allLocks, assertNoSecrets, Client, eventOf, type StreamEvent, watching } from "./system-client.js";
import { type Lease, Ledger } from "./system-ledger.js";

const rounds = 5;
const clientCount = 24;
const hotNames = 6;
const acknowledgedPerRound = 500;
/** Long enough that none ends while the test runs. */
const ttl = 600;
/** Its grant is the last event that the follower waits for. */
const lastName = "the-last";

test(`${rounds} times kill -9 under load by ${clientCount} clients loses nothing that was acknowledged`, async (t) => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  t.diagnostic(`seed ${seed}`);
  const random = randomFrom(seed);
  const ledger = new Ledger();
  let server = await startServer({ env: { HOLDFAST_RATE_LIMIT: "off" } });
  const clients = [
    new Client(server.url, "secret-a", { sockets: 32 }),
    new Client(server.url, "secret-b", { sockets: 32 }),
  ] as const;
  const follower = new Follower(server.url);
  await follower.start();
  let foundAgain = 0;
  for (let round = 1; round <= rounds; round++) {
    const brief = await runUntilKilled(server, clients, ledger, random, round);
    server = await server.restart();
    follower.resume();
    const locks = await allLocks(clients[0]);
    ledger.checkHeld(locks);
    ledger.checkReleased(locks);
    const held = [...ledger.held.values()];
    await Promise.all(held.map((lease) => ledger.renew(lease)));
    await Promise.all(held.map((lease) => ledger.checkRepeat(lease)));
    foundAgain += await ledger.settleLost();
    await checkRefused(ledger.released.slice(-50));
    const { status } = await brief.client.renew(brief.name, brief.leaseId);
    assert.equal(status, 400, "a lease that had expired, and whose name another got, is not revived");
    t.diagnostic(`round ${round}: ${ledger.acknowledged} acknowledged, ${held.length} held`);
  }
  t.diagnostic(`${foundAgain} leases found again whose reply was lost`);
  await ledger.acquire(clients[0], lastName, ttl);
  await follower.check(ledger);
  t.diagnostic(`${follower.seen.length} events, resumed ${rounds} times without gap or repeat`);
  assertNoSecrets(server, [...ledger.secrets, "secret-a", "secret-b"]);
  for (const client of clients) client.close();
  assert.equal(await server.stop(), 0);
});

/** Load, then kill -9 in the middle of it. Returns a lease that expired before. */
async function runUntilKilled(
  server: Server,
  clients: readonly [Client, Client],
  ledger: Ledger,
  random: () => number,
  round: number,
): Promise<Lease> {
  const enough = ledger.acknowledged + acknowledgedPerRound + Math.floor(random() * 200);
  let killed = false;
  let isBriefOver = false;
  const brief = briefLease(clients, round).finally(() => {
    isBriefOver = true;
  });
  const loops = Array.from({ length: clientCount }, async (_, i) => {
    const client = clients[i % 2] ?? clients[0];
    const own: Lease[] = [];
    for (let step = 0; !killed; step++) {
      try {
        await oneStep(client, ledger, own, random, `r${round}-c${i}-${step}`);
      } catch (error) {
        if (error instanceof assert.AssertionError) throw error;
        break;
      }
      if (killed || !isBriefOver || ledger.acknowledged < enough) continue;
      killed = true;
      server.kill("SIGKILL");
    }
  });
  await Promise.all(loops);
  await server.exited;
  return brief;
}

/** What a client does next: mostly fresh names, some that all want, renewals, releases, half with a request id. */
async function oneStep(
  client: Client,
  ledger: Ledger,
  own: Lease[],
  random: () => number,
  label: string,
): Promise<void> {
  const dice = random();
  const requestId = random() < 0.5 ? `request-${label}` : undefined;
  if (dice < 0.25 && own.length > 0) {
    const [lease] = own.splice(Math.floor(random() * own.length), 1);
    if (lease !== undefined) await ledger.release(lease);
  } else if (dice < 0.45 && own.length > 0) {
    const lease = own[Math.floor(random() * own.length)];
    if (lease !== undefined) await ledger.renew(lease);
  } else {
    const name = dice < 0.65 ? `hot-${Math.floor(random() * hotNames)}` : `fresh-${label}`;
    const lease = await ledger.acquire(client, name, ttl, requestId);
    if (lease === null) return;
    own.push(lease);
    if (name.startsWith("hot-")) await ledger.release(own.pop() ?? lease);
  }
}

/** A lease that ends while the load runs: known to be over when the one who waits for it has it. */
async function briefLease([first, second]: readonly [Client, Client], round: number): Promise<Lease> {
  const name = `brief-${round}`;
  const { body } = await first.acquire(name, { ttl_seconds: 1 });
  const next = await second.acquire(name, { ttl_seconds: ttl, wait_seconds: 20 });
  assert.equal(next.body.status, "acquired");
  assert.ok(next.body.fencing_token > body.fencing_token);
  return {
    client: first,
    name,
    leaseId: body.lease_id,
    token: body.fencing_token,
    request: null,
    expiresAt: 0,
  };
}

/** Neither renewed nor released again. */
async function checkRefused(leases: readonly Lease[]): Promise<void> {
  for (const { client, name, leaseId } of leases) {
    const { status, body } = await client.renew(name, leaseId);
    assert.ok([400, 404].includes(status), `${name}: ${status}`);
    assert.equal(body.code, "lease_not_current");
  }
}

/** Follows the feed across crashes, each time resuming after the last event it has seen. */
class Follower {
  readonly seen: string[] = [];
  readonly #client: Client;
  #lastId: string | undefined;
  #over: Promise<void> = Promise.resolve();

  constructor(url: string) {
    this.#client = new Client(url, "secret-v");
  }

  /** Resolves when the snapshot is complete: from then on nothing may be missed. */
  async start(): Promise<void> {
    const stream = watching(this.#client, "/watch");
    this.#lastId = (await eventOf(stream, "synced")).id ?? undefined;
    this.#over = this.#read(stream);
  }

  resume(): void {
    const stream = watching(this.#client, "/watch", this.#lastId);
    this.#over = this.#over.then(() => this.#read(stream));
  }

  async #read(stream: AsyncGenerator<StreamEvent>): Promise<void> {
    try {
      for await (const { event, id, data } of stream) {
        assert.ok(id !== null && event !== "reset" && event !== "snapshot", `${event} in a resumed stream`);
        this.#lastId = id;
        this.seen.push(`${event} ${data.name} ${data.fencing_token}`);
        if (data.name === lastName) return;
      }
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      // The crash cut it.
    }
  }

  /** Every grant and release that was acknowledged is there, and nothing twice but renewals. */
  async check(ledger: Ledger): Promise<void> {
    await this.#over;
    this.#client.close();
    const told = this.seen.filter((line) => !line.startsWith("renewed "));
    const lines = new Set(told);
    assert.equal(lines.size, told.length, "an event came twice");
    for (const { name, token } of ledger.grants)
      assert.ok(lines.has(`acquired ${name} ${token}`), `no grant of ${name}`);
    for (const { name, token } of ledger.released)
      assert.ok(lines.has(`released ${name} ${token}`), `no release of ${name}`);
    const tokens = new Map<string, number>();
    for (const line of told) {
      const [kind, name = "", token = ""] = line.split(" ");
      if (kind !== "acquired") continue;
      assert.ok(Number(token) > (tokens.get(name) ?? 0), `${line} out of order`);
      tokens.set(name, Number(token));
    }
  }
}

/** A small repeatable generator (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
