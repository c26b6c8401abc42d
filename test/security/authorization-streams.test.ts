// Streams tell each listener of what its token covers, in its own space, and of nothing else: live, in the snapshot,
// and when an event id of somebody else is used to resume. A token's end is the end of its streams, in the midst of
// events too.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { type Body, eventually, fresh, ok, type TokenBody } from "../http-api.js";
import { type Frame, type Watch, watch } from "../http-stream.js";
import { adminToken as operator, type Server, startServer } from "../server.js";
import { assertQuietLog } from "./soundness.js";

const worker = "secret-a";
const elsewhere = { "holdfast-space": "other" };
let server: Server;

before(async () => {
  server = await startServer({ env: { HOLDFAST_RATE_LIMIT: "off", HOLDFAST_OVERLOAD_MS: "off" } });
});
after(async () => {
  await server.stop();
  assertQuietLog(server);
});

const make = (body: object): Promise<TokenBody> =>
  ok<TokenBody>(server, "createToken", { token: operator, body: { name: fresh("listener"), ...body } });

interface Listener {
  readonly who: string;
  readonly path: string;
  readonly token: string;
  readonly headers?: Record<string, string>;
  /** Names it may hear of; null: it listens in the other space, where all names are its own. */
  readonly hears: RegExp | null;
}

async function listeners(): Promise<Listener[]> {
  const token = async (body: object): Promise<string> => (await make(body)).token;
  const [all, some] = [
    await token({ role: "observer" }),
    await token({ role: "observer", scopes: ["seen-*"] }),
  ];
  const native = await token({ role: "admin", space: "other" });
  return [
    { who: "the operator", path: "/watch", token: operator, hears: /./ },
    { who: "the operator elsewhere", path: "/watch", token: operator, headers: elsewhere, hears: null },
    { who: "an observer", path: "/watch", token: all, hears: /./ },
    { who: "an observer of a prefix", path: "/watch?prefix=hidden-", token: all, hears: /^hidden-/ },
    { who: "an observer of some names", path: "/watch", token: some, hears: /^seen-/ },
    { who: "one that asks for others", path: "/watch?prefix=hidden-", token: some, hears: /^(?!)/ },
    { who: "one that asks for fewer", path: "/watch?prefix=seen-b", token: some, hears: /^seen-b/ },
    { who: "an observer of one name", path: "/locks/seen-a/watch", token: some, hears: /^seen-a$/ },
    { who: "an admin elsewhere", path: "/watch", token: native, hears: null },
    { who: "an admin elsewhere, by name", path: "/locks/seen-a/watch", token: native, hears: null },
  ];
}

/** Everything that can happen to a name, to several names, in one space. */
async function live(token: string, headers: Record<string, string> = {}): Promise<void> {
  const as = { token, headers };
  const metadata = headers["holdfast-space"] ?? "default";
  const { session_id } = await ok(server, "createSession", as);
  for (const name of ["seen-a", "hidden-a", "seen-b"]) {
    const first = await ok(server, "acquireLock", { ...as, name, body: { metadata } });
    await ok(server, "renewLock", { ...as, name, body: { lease_id: first.lease_id } });
    await ok(server, "releaseLock", { ...as, name, body: { lease_id: first.lease_id } });
    await ok(server, "claimJob", { ...as, name, body: { metadata, owner: metadata } });
    await ok(server, "forceReleaseLock", { token: operator, headers, name, body: { reason: "r" } });
    await ok(server, "acquireLock", { ...as, name, body: { metadata, session_id } });
  }
  await ok(server, "deleteSession", { ...as, name: session_id });
  for (const name of ["seen-a", "hidden-a"])
    await ok(server, "acquireLock", { ...as, name, body: { ttl_seconds: 1, metadata } });
}

const line = ({ event, data }: Frame): string =>
  `${event} ${data.name} ${data.fencing_token} ${data.metadata}`;
const isEvent = ({ event }: Frame): boolean => !["snapshot", "synced", "reset"].includes(event);

/** What a listener was told until both short leases of its space are over. */
async function hear(stream: Watch, isLast: (frames: readonly Frame[]) => boolean): Promise<Frame[]> {
  const frames: Frame[] = [];
  while (!isLast(frames)) frames.push(await stream.next());
  return frames.filter(isEvent);
}

const expiries = (frames: readonly Frame[]): number =>
  frames.filter(({ event }) => event === "expired").length;

describe("who hears what", () => {
  test("live and resumed, each hears of its own names in its own space alone", async () => {
    const all = await listeners();
    const open = (each: Listener, lastEventId?: string): Promise<Watch> =>
      watch(server, each.path, { ...each, ...(lastEventId === undefined ? {} : { lastEventId }) });
    const streams = await Promise.all(all.map((each) => open(each)));
    await Promise.all(streams.map((stream) => stream.synced()));
    const [here, there] = streams;
    assert.ok(here && there);
    const from = here.frames.at(-1)?.id ?? assert.fail("no id to resume from");
    await Promise.all([live(worker), live(operator, elsewhere)]);
    const told = await hear(here, (frames) => expiries(frames) === 2);
    const toldThere = await hear(there, (frames) => expiries(frames) === 2);
    for (const [events, space] of [
      [told, "default"],
      [toldThere, "other"],
    ] as const) {
      assert.ok(
        events.every(({ data }) => data.metadata === space),
        `all of ${space}`,
      );
      assert.deepEqual(
        new Set(events.map(({ event }) => event)),
        new Set(["acquired", "renewed", "released", "expired"]),
      );
      assert.ok(events.some(({ data }) => data.name === "hidden-a"));
    }
    for (const [i, each] of all.entries()) {
      const mine = each.hears === null ? toldThere : told;
      const name = /^\/locks\/(.*)\/watch$/.exec(each.path)?.[1];
      const wanted = mine
        .filter(
          ({ data }) => (each.hears ?? /./).test(data.name) && (name === undefined || data.name === name),
        )
        .map(line);
      const count = (frames: readonly Frame[]): boolean => frames.filter(isEvent).length >= wanted.length;
      const resumed = await open(each, from);
      const again = await hear(resumed, count);
      const atOnce: Frame[] = i < 2 ? mine : await hear(streams[i] ?? here, count);
      assert.deepEqual(atOnce.map(line), wanted, `${each.who}, live`);
      assert.deepEqual(again.map(line), wanted, `${each.who}, resumed`);
      // The last events came a second after the others: had it been told of those, it would have been by now.
      for (const stream of [resumed, streams[i]])
        assert.equal(stream?.frames.filter(isEvent).length, wanted.length, `${each.who} heard more`);
      resumed.close();
    }
    for (const stream of streams) stream.close();
  });
});

describe("a token's end in the midst of events", () => {
  /** Renews without pause until told to stop. */
  async function chatter(name: string, isOver: () => boolean): Promise<void> {
    const { lease_id }: Body = await ok(server, "acquireLock", { token: worker, name });
    while (!isOver()) await ok(server, "renewLock", { token: worker, name, body: { lease_id } });
  }

  const ends: readonly (readonly [string, object, (made: TokenBody) => Promise<unknown>])[] = [
    ["revoked", {}, ({ id }) => ok(server, "revokeToken", { token: operator, name: id })],
    ["rotated", {}, ({ id }) => ok(server, "rotateToken", { token: operator, name: id })],
    ["expired", { expires_in_seconds: 1 }, async () => undefined],
  ];
  for (const [how, body, end] of ends)
    test(`${how}: its streams fall silent within a second`, async () => {
      const made = await make({ role: "observer", ...body });
      const name = fresh("chatter");
      let isOver = false;
      const paths = ["/watch", `/watch?prefix=${name}`, `/locks/${name}/watch`];
      const streams = await Promise.all(paths.map((path) => watch(server, path, { token: made.token })));
      const talking = chatter(name, () => isOver);
      for (const stream of streams) while ((await stream.next()).event !== "renewed");
      await end(made);
      const overAt = made.expires_at === null ? Date.now() : Date.parse(made.expires_at);
      try {
        await eventually(async () => assert.ok(streams.every((stream) => stream.isOver)));
      } finally {
        isOver = true;
        await talking;
      }
      for (const { frames } of streams) {
        const last = Date.parse(frames.at(-1)?.data.observed_at ?? "");
        assert.ok(last - overAt < 1000, `an event ${last - overAt} ms after the token's end`);
      }
    });
});
