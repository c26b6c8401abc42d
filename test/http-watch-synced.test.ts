// A stream that begins, or is resumed right at `synced`, on a server that is busy meanwhile: it is told nothing that its
// snapshot showed already, and misses nothing that came after.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { type Body, fresh, ok } from "./http-api.js";
import { type Frame, watch } from "./http-stream.js";
import { type Server, startServer } from "./server.js";

const token = "secret-a";
const rounds = 20;
let server: Server;
before(async () => {
  server = await startServer({ env: { HOLDFAST_RATE_LIMIT: "off" } });
});
after(() => server[Symbol.asyncDispose]());

const acquire = (name: string): Promise<Body> => ok(server, "acquireLock", { token, name });
const release = ({ name, lease_id }: Body): Promise<Body> =>
  ok(server, "releaseLock", { token, name, body: { lease_id } });

const isHeld = ({ data }: Frame): boolean => data.status !== "free";

/** What is held, by the tokens that were told: a snapshot, then changes. Fails on what was told before. */
class Picture {
  readonly #tokens = new Map<string, number>();
  readonly #held = new Set<string>();

  constructor(snapshot: readonly Frame[]) {
    for (const frame of snapshot) {
      this.#tokens.set(frame.data.name, frame.data.fencing_token);
      if (isHeld(frame)) this.#held.add(frame.data.name);
    }
  }

  hear({ event, data: { name, fencing_token } }: Frame): void {
    const said = `${event} ${name} ${fencing_token}`;
    const last = this.#tokens.get(name) ?? 0;
    if (event === "acquired") {
      assert.ok(fencing_token > last, `${said} was told already: token ${last} is known`);
      assert.ok(!this.#held.has(name), `${said} comes without the end of token ${last}`);
      this.#held.add(name);
    } else assert.ok(fencing_token >= last, `${said} is over since before token ${last}`);
    if (event === "released") this.#held.delete(name);
    this.#tokens.set(name, fencing_token);
  }

  get held(): string[] {
    return [...this.#held].sort();
  }
}

/** Looks, and follows what comes: on the same stream, or on one that goes on from `synced`. */
async function lookAndFollow(path: string, isResumed: boolean): Promise<void> {
  const begun = await watch(server, path, { token });
  const picture = new Picture(await begun.synced());
  const lastEventId = begun.frames.find(({ event }) => event === "synced")?.id ?? "";
  if (isResumed) begun.close();
  const stream = isResumed ? await watch(server, path, { token, lastEventId }) : begun;
  for (const frame of await stream.take(20)) picture.hear(frame);
  stream.close();
}

for (const kind of ["a prefix", "one name"])
  test(`${kind}: on from its snapshot, and resumed there`, async () => {
    const stem = fresh("busy");
    const names = Array.from({ length: kind === "one name" ? 1 : 8 }, (_, i) => `${stem}/${i}`);
    const [first = ""] = names;
    const path = kind === "one name" ? `/locks/${encodeURIComponent(first)}/watch` : `/watch?prefix=${stem}/`;
    let isBusy = true;
    const work = names.map(async (name) => {
      while (isBusy) await release(await acquire(name));
    });
    try {
      for (let round = 0; round < rounds; round++)
        for (const isResumed of [true, false]) await lookAndFollow(path, isResumed);
    } finally {
      isBusy = false;
      await Promise.all(work);
    }
    const quiet = await watch(server, path, { token });
    const snapshot = await quiet.synced();
    assert.deepEqual(new Picture(snapshot).held, []);
    quiet.close();
  });
