// Places in lists and streams by chance: cursors and event ids that were given out, damaged or made up. Each is
// refused or leads to a place among what its caller may see; none leads into another space, beyond a prefix or a
// scope, and none makes a stream hang.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import fc from "fast-check";
import { assertReply, type Body, ok, pathOf, routeOf, send, type TokenBody } from "../http-api.js";
import { type Frame, watch } from "../http-stream.js";
import { adminToken as operator, type Server, startServer } from "../server.js";
import { runs } from "./fuzz.js";
import { assertQuietLog, assertSound } from "./soundness.js";

const names = ["a", "b/c", "b/d", "path:caf\u00e9/x", "path:z", "zz"];
const space = "mine";
let server: Server;
let scoped = "";
const cursors: Record<string, string[]> = { listLocks: [], listJobs: [], listAudit: [] };
const eventIds: string[] = [];

before(async () => {
  server = await startServer({ env: { HOLDFAST_RATE_LIMIT: "off", HOLDFAST_OVERLOAD_MS: "off" } });
  const make = (body: object): Promise<TokenBody> =>
    ok<TokenBody>(server, "createToken", { token: operator, body });
  // Spaces on both sides of it in every order, with the same names.
  for (const each of ["mind", space, "mine.", "mine-", "minf"]) {
    const headers = { "holdfast-space": each };
    for (const name of names)
      await ok(server, "acquireLock", {
        token: operator,
        name,
        headers,
        body: { ttl_seconds: 600, metadata: each },
      });
    await ok(server, "forceReleaseLock", { token: operator, name: "none", headers, body: { reason: each } });
  }
  scoped = (await make({ name: "scoped", space, role: "admin", scopes: ["b/*", "path:*"] })).token;
  await make({ name: "other", space });
  for (const id of ["listLocks", "listJobs", "listAudit"] as const)
    for (let cursor = ""; ; ) {
      const page: Body = await ok(server, id, { token: scoped, query: { limit: "1", cursor } });
      if (page.next_cursor === null) break;
      cursor = page.next_cursor;
      cursors[id]?.push(cursor);
    }
  const stream = await watch(server, "/watch", {
    token: operator,
    headers: { "holdfast-space": space },
    lastEventId: "x-0",
  });
  await stream.synced();
  eventIds.push(...stream.frames.flatMap(({ id }) => (id === null ? [] : [id])));
  stream.close();
});
after(async () => {
  await server.stop();
  assertQuietLog(server);
});

/** A text that was given out, with some of it changed; as it stands, or what it is in base 64. */
function altered(given: () => readonly string[], isEncoded: boolean): fc.Arbitrary<string> {
  const change = fc.record({
    at: fc.nat(80),
    drop: fc.nat(4),
    put: fc.oneof(
      fc.constantFrom(
        "",
        "\0",
        "\x7f",
        "/",
        "../",
        "mind/",
        "mine./",
        "~",
        "%",
        "%2F",
        "\u00ff",
        "é",
        "-1",
        "1e9",
        ",",
      ),
      fc.string({ maxLength: 4 }),
    ),
  });
  return fc
    .record({
      nth: fc.nat(20),
      changes: fc.array(change, { minLength: 1, maxLength: 3 }),
      isWithin: fc.boolean(),
    })
    .map(({ nth, changes, isWithin }) => {
      const all = given();
      const isInner = isEncoded && isWithin;
      let text = all[nth % all.length] ?? "";
      if (isInner) text = Buffer.from(text, "base64url").toString("latin1");
      for (const { at, drop, put } of changes) {
        const place = at % (text.length + 1);
        text = text.slice(0, place) + put + text.slice(place + drop);
      }
      return isInner ? Buffer.from(text, "latin1").toString("base64url") : text;
    });
}

describe("cursors", () => {
  /** What a row is, and whether the caller may see it. */
  const lists: readonly (readonly ["listLocks" | "listJobs" | "listAudit", (page: Body) => boolean])[] = [
    [
      "listLocks",
      ({ locks }) => locks.every(({ name, metadata }) => metadata === space && /^(b\/|path:)/.test(name)),
    ],
    [
      "listJobs",
      ({ jobs }) => jobs.every(({ job_id, metadata }) => metadata === space && /^(b\/|path:)/.test(job_id)),
    ],
    ["listAudit", ({ records }) => records.every((record) => record.space === space)],
  ];
  for (const [id, isOwn] of lists)
    test(`${id}: a place in the caller's own list, or 422`, () => {
      assert.ok((cursors[id]?.length ?? 0) >= 2, "there are cursors to alter");
      const prefixes = fc.constantFrom(undefined, "", "b", "b/c", "path:", "path:caf\u00e9", "z", "\u007f");
      return fc.assert(
        fc.asyncProperty(
          altered(() => cursors[id] ?? [], true),
          prefixes,
          async (cursor, prefix) => {
            const isAsked = prefix !== undefined && id !== "listAudit";
            const query = { limit: "1000", cursor, ...(isAsked ? { prefix } : {}) };
            const reply = await send(server, "GET", pathOf(routeOf(id), { query }), { token: scoped });
            assertSound(reply);
            assertReply(routeOf(id), reply);
            if (reply.status !== 200) {
              assert.deepEqual([reply.status, reply.body.code], [422, "invalid_input"], reply.text);
              return;
            }
            assert.ok(isOwn(reply.body), reply.text);
            const rows = reply.body.locks ?? reply.body.jobs ?? [];
            if (isAsked)
              assert.ok(
                rows.every(({ name, job_id }) => (name ?? job_id).startsWith(prefix)),
                reply.text,
              );
          },
        ),
        runs(60),
      );
    });
});

describe("Last-Event-ID", () => {
  const isTold = ({ event }: Frame): boolean => !["synced", "reset"].includes(event);

  test("resumes, or says reset and tells all; always of the caller's own", () => {
    assert.ok(eventIds.length >= 1, "there are ids to alter");
    const ids = altered(() => eventIds, false).map(
      (id) => id.replaceAll(/[^\x20-\x7e\x80-\xff]/g, "") || "-",
    );
    return fc.assert(
      fc.asyncProperty(ids, async (lastEventId) => {
        const stream = await watch(server, "/watch", { token: scoped, lastEventId });
        // Something that happens now comes after whatever the id led to.
        const headers = { "holdfast-space": space };
        const { lease_id } = await ok(server, "acquireLock", {
          token: operator,
          headers,
          name: "b/now",
          body: { metadata: space },
        });
        await ok(server, "releaseLock", { token: operator, headers, name: "b/now", body: { lease_id } });
        for (let frame = await stream.next(); frame.event !== "released" || frame.data.name !== "b/now"; ) {
          frame = await stream.next();
          if (frame.event === "reset") assert.equal(stream.frames[0], frame, "a reset comes first");
        }
        stream.close();
        for (const { data } of stream.frames.filter(isTold))
          assert.ok(data.metadata === space && /^(b\/|path:)/.test(data.name), JSON.stringify(data));
      }),
      runs(40),
    );
  });

  test("one of another space tells of nothing there", async () => {
    const stream = await watch(server, "/watch", {
      token: operator,
      headers: { "holdfast-space": "mind" },
      lastEventId: "x-0",
    });
    await stream.synced();
    const id = stream.frames.at(-1)?.id ?? assert.fail("no id");
    const [epoch] = id.split("-");
    stream.close();
    const mine = await watch(server, "/watch", { token: scoped, lastEventId: `${epoch}-0` });
    const frames = await mine.take(3);
    mine.close();
    assert.ok(frames.every(({ data }) => data.metadata === space));
  });
});
